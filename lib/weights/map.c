#include "weights/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

status map_open(map *m, const char *path, err *e) {
    *m = (map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(e, ST_INPUT, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    status s = ST_OK;
    if (fstat(fd, &st)) s = err_set(e, ST_INPUT, "%s: cannot stat: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode)) s = err_set(e, ST_INPUT, "%s: expected a regular file", path);
    else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) s = err_set(e, ST_INPUT, "%s: cannot map: %s", path, strerror(errno));
        else *m = (map){.p = p, .n = (size_t)st.st_size, .inode = st.st_ino, .sec = st.st_mtim.tv_sec, .nsec = st.st_mtim.tv_nsec};
    }
    close(fd);
    return s;
}

void map_close(map *m) {
    if (m->p) munmap((void *)(uintptr_t)m->p, m->n);
    *m = (map){0};
}
