/*
 * bundle.h: files inside a file, behind whatever it begins with (an executable). From the end: a footer of 16
 * bytes (u32 members, u32 CRC-32 of the directory, "KRAFLAB1"), before it the directory, one entry of 56
 * bytes per member (char name[32], u64 offset, u64 bytes, u32 CRC-32 of the bytes, u32 zero). Members start
 * at multiples of 64 KiB, so that they can be mapped; ml_file_open takes FILE::NAME for one.
 */
#ifndef ML_BUNDLE_H
#define ML_BUNDLE_H

#include "ml.h"

/* Where the member called `name` lies in a file of `size` bytes; false if there is none. */
bool ml_bundle_find(const unsigned char *file, size_t size, const char *name, size_t *offset, size_t *bytes);
/* *members is 0 if the file is no bundle; an error if it is one and is damaged. */
ml_status ml_bundle_check(const char *path, uint32_t *members, ml_error *error);

#endif
