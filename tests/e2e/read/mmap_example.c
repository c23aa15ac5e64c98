// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernel's example of mapping a ring, with only its path changed: it reads ours, too. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/trace_mmap.h>

#include <sys/mman.h>
#include <sys/ioctl.h>

#define TRACE_PIPE_RAW "/sys/kernel/debug/tracebraid/trace/per_cpu/cpu0/trace_pipe_raw"

int main(void)
{
        int page_size = getpagesize(), fd, reader_id;
        unsigned long meta_len, data_len;
        struct trace_buffer_meta *meta;
        void *map, *reader, *data;

        fd = open(TRACE_PIPE_RAW, O_RDONLY | O_NONBLOCK);
        if (fd < 0)
                exit(EXIT_FAILURE);

        map = mmap(NULL, page_size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
                exit(EXIT_FAILURE);

        meta = (struct trace_buffer_meta *)map;
        meta_len = meta->meta_page_size;

        printf("entries:        %llu\n", meta->entries);
        printf("overrun:        %llu\n", meta->overrun);
        printf("read:           %llu\n", meta->read);
        printf("nr_subbufs:     %u\n", meta->nr_subbufs);

        data_len = meta->subbuf_size * meta->nr_subbufs;
        data = mmap(NULL, data_len, PROT_READ, MAP_SHARED, fd, meta_len);
        if (data == MAP_FAILED)
                exit(EXIT_FAILURE);

        if (ioctl(fd, TRACE_MMAP_IOCTL_GET_READER) < 0)
                exit(EXIT_FAILURE);

        reader_id = meta->reader.id;
        reader = data + meta->subbuf_size * reader_id;

        printf("Current reader address: %p\n", reader);

        munmap(data, data_len);
        munmap(meta, meta_len);
        close(fd);

        return 0;
}
