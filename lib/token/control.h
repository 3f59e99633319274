/* control.h: text that a server would parse as a control token of a chat template. */
#ifndef ANYJEV_TOKEN_CONTROL_H
#define ANYJEV_TOKEN_CONTROL_H

#include <stdbool.h>

#include "base/buf.h"

/* The first look-alike in text of a control token of the template named (a name of CHAT_NAMES): <|word|> for ChatML
 * and Llama families, [INST], <s> and the like for Mistral, <start_of_turn> and the like for Gemma. "none" and names
 * that are not known (the server's template may be any) stand for all of them. */
bool control_find(strv text, strv template, strv *which);

#endif
