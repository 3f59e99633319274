/* nfc.h: Unicode normal form C, in time linear in the text whatever it holds. */
#ifndef ANYJEV_TOKEN_NFC_H
#define ANYJEV_TOKEN_NFC_H

#include "base/buf.h"
#include "base/err.h"

/* text: valid UTF-8. *out is text itself when it is in normal form by a glance, else a view of space. */
status nfc_normalize(strv text, buf *space, strv *out, err *e);

#endif
