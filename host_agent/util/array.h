/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An array that grows, of elements of one size. */
#ifndef BRAID_UTIL_ARRAY_H
#define BRAID_UTIL_ARRAY_H

#include <stddef.h>

/**
 * braid_array_reserve - make space for one more element
 * @items: the array, or NULL when it is empty
 * @nr: elements in it
 * @capacity: its capacity in elements; updated
 * @item_bytes: of one element
 *
 * Return: the array, which may have moved; NULL when out of memory (@items stays valid).
 */
void *braid_array_reserve(void *items, size_t nr, size_t *capacity, size_t item_bytes);

/**
 * braid_array_push - append an element
 * @items: pointer variable of the array
 * @nr: count variable, moved on
 * @capacity: capacity variable
 * @item: the element
 *
 * Return: 0 or -ENOMEM.
 */
#define braid_array_push(items, nr, capacity, item)				\
	({									\
		void *room_ = braid_array_reserve(items, nr, &(capacity), sizeof(*(items))); \
										\
		if (room_) {							\
			(items) = room_;					\
			(items)[(nr)++] = (item);				\
		}								\
		room_ ? 0 : -ENOMEM;						\
	})

/** braid_array_extend - the slow path of braid_array_cover(); NULL: out of memory */
void *braid_array_extend(void *items, size_t *nr, size_t index, size_t item_bytes);

/**
 * braid_array_cover - make sure that an array by number has an element of that number
 * @items: pointer variable of the array; NULL at first
 * @nr: count variable: the elements that are there, those without a value zeroed
 * @index: the element's number
 *
 * Return: 0 or -ENOMEM.
 */
#define braid_array_cover(items, nr, index)					\
	({									\
		void *all_ = (index) < (nr) ? (void *)(items) :			\
			     braid_array_extend(items, &(nr), index, sizeof(*(items))); \
										\
		if (all_)							\
			(items) = all_;						\
		all_ ? 0 : -ENOMEM;						\
	})

/**
 * braid_array_first - find the first element of a sorted array that something holds for
 * @k: index variable: set to it, or to @nr if there is none
 * @nr: number of elements
 * @holds: a condition on element @k: false up to some element, and true from there on
 */
#define braid_array_first(k, nr, holds)						\
	({									\
		size_t low_ = 0, high_ = (nr);					\
										\
		while (low_ < high_) {						\
			(k) = low_ + (high_ - low_) / 2;			\
			if (holds)						\
				high_ = (k);					\
			else							\
				low_ = (k) + 1;					\
		}								\
		(k) = low_;							\
	})

/** braid_compare - the order of two numbers, as qsort() has it: below 0, 0, above 0 */
#define braid_compare(a, b)	(((a) > (b)) - ((a) < (b)))

#endif /* BRAID_UTIL_ARRAY_H */
