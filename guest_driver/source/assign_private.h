/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Replaces the assignment macros of pass 6, so that no probe reads a place or a length back.
 *
 * The kernel's own versions fetch them from the record's __data_loc words.
 * There the record is the kernel's; here the host may change those words
 * between our store and our load. So these take both from __data_offsets on
 * the stack, and never copy more than was measured before the reservation,
 * however the source may have changed since.
 *
 * No include guard: this is part of a pass of generate.h.
 */

/*
 * Volatile, so that the compiler does not keep its only copy of the word in the record and reload
 * it from there.
 */
#undef __dynamic_array
#define __dynamic_array(type, item, len)				\
	WRITE_ONCE(__entry->__data_loc_##item, __data_offsets.item);
#undef __rel_dynamic_array
#define __rel_dynamic_array(type, item, len)				\
	WRITE_ONCE(__entry->__rel_loc_##item, __data_offsets.item);

#undef __get_dynamic_array
#define __get_dynamic_array(field)					\
	((void *)__entry + (__data_offsets.field & 0xffff))
#undef __get_dynamic_array_len
#define __get_dynamic_array_len(field)	(__data_offsets.field >> 16)
#undef __get_rel_dynamic_array
#define __get_rel_dynamic_array(field)					\
	((void *)__entry + offsetofend(typeof(*__entry), __rel_loc_##field) + \
	 (__data_offsets.field & 0xffff))
#undef __get_rel_dynamic_array_len
#define __get_rel_dynamic_array_len(field)	__get_dynamic_array_len(field)

#undef __get_str
#define __get_str(field)		((char *)__get_dynamic_array(field))
#undef __get_bitmask
#define __get_bitmask(field)		((char *)__get_dynamic_array(field))
#undef __get_cpumask
#define __get_cpumask(field)		((char *)__get_dynamic_array(field))
#undef __get_sockaddr
#define __get_sockaddr(field)	((struct sockaddr *)__get_dynamic_array(field))
#undef __get_rel_str
#define __get_rel_str(field)		((char *)__get_rel_dynamic_array(field))
#undef __get_rel_bitmask
#define __get_rel_bitmask(field)	((char *)__get_rel_dynamic_array(field))
#undef __get_rel_cpumask
#define __get_rel_cpumask(field)	((char *)__get_rel_dynamic_array(field))
#undef __get_rel_sockaddr
#define __get_rel_sockaddr(field)					\
	((struct sockaddr *)__get_rel_dynamic_array(field))

/*
 * Strings: some kernels repeat the source here. In either case the measured one is used.
 */
#undef __assign_str
#define __assign_str(dst, src...)					\
	braid_assign_string(__get_str(dst), __data_offsets.dst##_ptr_,	\
			    __get_dynamic_array_len(dst))
#undef __assign_str_len
#define __assign_str_len(dst, src, len)		__assign_str(dst)
#undef __assign_vstr
#define __assign_vstr(dst, fmt, va)					\
	braid_assign_vstring(__get_str(dst), __get_dynamic_array_len(dst), \
			     fmt, va)
#undef __assign_rel_str
#define __assign_rel_str(dst, src...)					\
	braid_assign_string(__get_rel_str(dst), __data_offsets.dst##_ptr_, \
			    __get_dynamic_array_len(dst))
#undef __assign_rel_str_len
#define __assign_rel_str_len(dst, src, len)	__assign_rel_str(dst)

#undef __assign_bitmask
#define __assign_bitmask(dst, src, nr_bits)				\
	braid_assign_bytes(__get_bitmask(dst), src,			\
			   __bitmask_size_in_bytes(nr_bits),		\
			   __get_dynamic_array_len(dst))
#undef __assign_cpumask
#define __assign_cpumask(dst, src)	__assign_bitmask(dst, src, nr_cpumask_bits)
#undef __assign_sockaddr
#define __assign_sockaddr(dst, src, len)				\
	braid_assign_bytes(__get_dynamic_array(dst), src, len,		\
			   __get_dynamic_array_len(dst))
#undef __assign_rel_bitmask
#define __assign_rel_bitmask(dst, src, nr_bits)				\
	braid_assign_bytes(__get_rel_bitmask(dst), src,			\
			   __bitmask_size_in_bytes(nr_bits),		\
			   __get_dynamic_array_len(dst))
#undef __assign_rel_cpumask
#define __assign_rel_cpumask(dst, src)					\
	__assign_rel_bitmask(dst, src, nr_cpumask_bits)
#undef __assign_rel_sockaddr
#define __assign_rel_sockaddr(dst, src, len)				\
	braid_assign_bytes(__get_rel_dynamic_array(dst), src, len,	\
			   __get_dynamic_array_len(dst))
