/* file.c: files as bytes (mmap, CreateFileMapping, or fread), and atomic writing. */
#if !defined(_WIN32)
#define _GNU_SOURCE /* madvise, fileno */
#define _FILE_OFFSET_BITS 64
#endif
#if defined(__wasi__) && !defined(ML_NO_MMAP)
#define ML_NO_MMAP /* there is none */
#endif
#include "file.h"

#include "arena.h"
#include "bundle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(_WIN32)
#include <windows.h>
#else
#include <sys/stat.h>
#include <unistd.h>
#if !defined(ML_NO_MMAP)
#include <sys/mman.h>
#endif
#endif

static ml_status cannot(ml_error *error, const char *path, const char *what, const char *why)
{
    return ml_fail(error, ML_E_IO, "%s: cannot %s: %s", path, what, why);
}

#if defined(_WIN32)

/* Paths are UTF-8 everywhere; NULL if this one is not, or without memory. */
static wchar_t *wide(const char *path)
{
    int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *result = length > 0 ? malloc((size_t)length * sizeof *result) : NULL;
    if (result)
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, result, length);
    return result;
}

static FILE *open_stream(const char *path, const wchar_t *mode)
{
    wchar_t *name = wide(path);
    FILE *stream = name ? _wfopen(name, mode) : NULL;
    free(name);
    return stream;
}
#define OPEN_STREAM(path, mode) open_stream(path, L##mode)

static bool replace(const char *from, const char *to)
{
    wchar_t *source = wide(from), *destination = wide(to);
    bool done = source && destination && MoveFileExW(source, destination, MOVEFILE_REPLACE_EXISTING);
    free(source);
    free(destination);
    return done;
}

static void delete_file(const char *path)
{
    wchar_t *name = wide(path);
    if (name)
        DeleteFileW(name);
    free(name);
}

static unsigned long process_id(void)
{
    return GetCurrentProcessId();
}

#else

#define OPEN_STREAM(path, mode) fopen(path, mode "e")

static bool replace(const char *from, const char *to)
{
    return rename(from, to) == 0;
}

static void delete_file(const char *path)
{
    remove(path);
}

static unsigned long process_id(void)
{
#if defined(__wasi__)
    return 0; /* there is none */
#else
    return (unsigned long)getpid();
#endif
}

#endif

#if defined(_WIN32) && !defined(ML_NO_MMAP)

static ml_status open_whole(ml_file *file, const char *path, ml_error *error)
{
    *file = (ml_file){0};
    wchar_t *name = wide(path);
    HANDLE handle = name ? CreateFileW(name, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL,
                                       OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL)
                         : INVALID_HANDLE_VALUE;
    free(name);
    if (handle == INVALID_HANDLE_VALUE)
        return cannot(error, path, "open it", "no such file, or no permission");
    LARGE_INTEGER size = {0};
    HANDLE mapping = NULL;
    ml_status status = ML_OK;
    if (!GetFileSizeEx(handle, &size)) {
        status = cannot(error, path, "read its size", "not a regular file");
    } else if ((uint64_t)size.QuadPart > SIZE_MAX) {
        status = ml_fail(error, ML_E_NOMEM, "%s: does not fit into the address space", path);
    } else if (size.QuadPart > 0) {
        mapping = CreateFileMappingW(handle, NULL, PAGE_READONLY, 0, 0, NULL);
        file->data = mapping ? MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0) : NULL;
        if (!file->data)
            status = ml_fail(error, ML_E_NOMEM, "%s: cannot map %lld bytes", path, (long long)size.QuadPart);
        file->mapped = file->data != NULL;
        file->size = file->data ? (size_t)size.QuadPart : 0;
    }
    /* The view keeps the mapping and the file alive. */
    if (mapping)
        CloseHandle(mapping);
    CloseHandle(handle);
    return status;
}

static void unmap(ml_file *file)
{
    UnmapViewOfFile(file->base);
}

void ml_file_discard(const ml_file *file, const void *start, size_t bytes)
{
    if (file->mapped && bytes) {
        /* Unlocking pages that are not locked fails, and takes them out of the working set. */
        (void)VirtualUnlock((void *)(uintptr_t)start, bytes);
    }
}

#else

/* Opens a regular file for reading and finds its size. */
static ml_status open_regular(FILE **stream, uint64_t *size, const char *path, ml_error *error)
{
    *stream = OPEN_STREAM(path, "rb");
    if (!*stream)
        return cannot(error, path, "open it", strerror(errno));
#if defined(_WIN32)
    long long end = _fseeki64(*stream, 0, SEEK_END) == 0 ? _ftelli64(*stream) : -1;
    if (end >= 0 && _fseeki64(*stream, 0, SEEK_SET) == 0) {
        *size = (uint64_t)end;
        return ML_OK;
    }
#else
    struct stat information;
    if (fstat(fileno(*stream), &information) == 0 && S_ISREG(information.st_mode)) {
        *size = (uint64_t)information.st_size;
        return ML_OK;
    }
#endif
    fclose(*stream);
    return cannot(error, path, "open it", "not a regular file");
}

#if defined(ML_NO_MMAP)

static ml_status read_all(ml_file *file, FILE *stream, const char *path, ml_error *error)
{
    unsigned char *data = ml_pages_allocate(file->size);
    if (!data)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory for %zu bytes", path, file->size);
    file->data = data;
    enum { PIECE = 1 << 26 }; /* wasmtime refuses reads beyond 128 MiB */
    size_t done = 0, taken = 1;
    while (done < file->size && taken > 0) {
        size_t rest = file->size - done;
        taken = fread(data + done, 1, rest < PIECE ? rest : PIECE, stream);
        done += taken;
    }
    if (done == file->size)
        return ML_OK;
    ml_pages_release(data, file->size);
    return cannot(error, path, "read it", ferror(stream) ? strerror(errno) : "it shrank meanwhile");
}

static void unmap(ml_file *file)
{
    ml_pages_release((void *)(uintptr_t)file->base, file->base_size);
}

void ml_file_discard(const ml_file *file, const void *start, size_t bytes)
{
    (void)file, (void)start, (void)bytes; /* the only copy in memory */
}

#else

static ml_status read_all(ml_file *file, FILE *stream, const char *path, ml_error *error)
{
    void *data = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fileno(stream), 0);
    if (data == MAP_FAILED)
        return ml_fail(error, ML_E_NOMEM, "%s: cannot map %zu bytes: %s", path, file->size, strerror(errno));
    file->data = data;
    file->mapped = true;
    return ML_OK;
}

static void unmap(ml_file *file)
{
    munmap((void *)(uintptr_t)file->base, file->base_size);
}

void ml_file_discard(const ml_file *file, const void *start, size_t bytes)
{
    /* Whole pages only: the ones at the ends also hold other arrays. */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)start + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)start + bytes) & ~(page - 1);
    if (file->mapped && first < end)
        (void)madvise((void *)first, end - first, MADV_DONTNEED);
}

#endif

static ml_status open_whole(ml_file *file, const char *path, ml_error *error)
{
    *file = (ml_file){0};
    FILE *stream;
    uint64_t size = 0;
    ml_status status = open_regular(&stream, &size, path, error);
    if (status != ML_OK)
        return status;
    file->size = (size_t)size;
    if (size > SIZE_MAX)
        status = ml_fail(error, ML_E_NOMEM, "%s: does not fit into the address space", path);
    else if (size > 0) /* an empty file has no data, which is no error here */
        status = read_all(file, stream, path, error);
    fclose(stream);
    if (status != ML_OK)
        *file = (ml_file){0};
    return status;
}

#endif

/* Narrows an open bundle to one member. */
static ml_status narrow(ml_file *file, const char *path, const char *name, ml_error *error)
{
    size_t offset, bytes;
    if (!file->data || !ml_bundle_find(file->data, file->size, name, &offset, &bytes))
        return cannot(error, path, "open it", "no such file inside");
    file->data += offset;
    file->size = bytes;
    return ML_OK;
}

static ml_status open_based(ml_file *file, const char *path, ml_error *error)
{
    ml_status status = open_whole(file, path, error);
    file->base = file->data;
    file->base_size = file->size;
    return status;
}

ml_status ml_file_open(ml_file *file, const char *path, ml_error *error)
{
    ml_status status = open_based(file, path, error);
    const char *mark = status == ML_E_IO ? strstr(path, "::") : NULL;
    if (!mark)
        return status;
    size_t length = (size_t)(mark - path);
    char *bundle = malloc(length + 1);
    if (!bundle)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory to open it", path);
    memcpy(bundle, path, length);
    bundle[length] = 0;
    status = open_based(file, bundle, error);
    free(bundle);
    if (status == ML_OK && (status = narrow(file, path, mark + 2, error)) != ML_OK)
        ml_file_close(file);
    return status;
}

void ml_file_close(ml_file *file)
{
    if (file->base)
        unmap(file);
    *file = (ml_file){0};
}

/* Writes the parts; returns NULL, or why it failed. */
static const char *write_spans(const char *path, const ml_span *spans, size_t count)
{
    errno = 0;
    FILE *stream = OPEN_STREAM(path, "wb");
    if (!stream)
        return strerror(errno);
    bool written = true;
    for (size_t i = 0; i < count && written; i++)
        written = fwrite(spans[i].data, 1, spans[i].bytes, stream) == spans[i].bytes;
    int reason = errno;
    if (fclose(stream) != 0 && written) {
        written = false;
        reason = errno;
    }
    return written ? NULL : strerror(reason);
}

ml_status ml_file_write_atomically(const char *path, const ml_span *spans, size_t count, ml_error *error)
{
    size_t capacity = strlen(path) + 32;
    char *temporary = malloc(capacity);
    if (!temporary)
        return ml_fail(error, ML_E_NOMEM, "%s: no memory to write it", path);
    snprintf(temporary, capacity, "%s.%lu.tmp", path, process_id());
    const char *problem = write_spans(temporary, spans, count);
    if (!problem && !replace(temporary, path))
        problem = strerror(errno);
    if (problem)
        delete_file(temporary);
    ml_status status = problem ? cannot(error, path, "write it", problem) : ML_OK;
    free(temporary);
    return status;
}
