// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes the nodes of a print format's tree, and computes their numbers. */
#include <stdlib.h>

#include "host_agent/format/tree.h"

#define MAX_INDEX	16u	/* in a format for others: constant index into a dynamic array */

static u64 operate(enum braid_node_op op, u64 left, u64 right)
{
	switch (op) {
	case BRAID_NODE_NOT:
		return !right;
	case BRAID_NODE_INVERT:
		return ~right;
	case BRAID_NODE_NEGATE:
		return -right;
	case BRAID_NODE_OR:
		return left || right;
	case BRAID_NODE_AND:
		return left && right;
	case BRAID_NODE_BIT_OR:
		return left | right;
	case BRAID_NODE_BIT_XOR:
		return left ^ right;
	case BRAID_NODE_BIT_AND:
		return left & right;
	case BRAID_NODE_EQUAL:
		return left == right;
	case BRAID_NODE_UNEQUAL:
		return left != right;
	case BRAID_NODE_LESS:
		return left < right;
	case BRAID_NODE_LESS_EQUAL:
		return left <= right;
	case BRAID_NODE_GREATER:
		return left > right;
	case BRAID_NODE_GREATER_EQUAL:
		return left >= right;
	case BRAID_NODE_SHIFT_LEFT:
		return left << (right & 63);	/* as the processor does it */
	case BRAID_NODE_SHIFT_RIGHT:
		return left >> (right & 63);
	case BRAID_NODE_PLUS:
		return left + right;
	case BRAID_NODE_MINUS:
		return left - right;
	case BRAID_NODE_TIMES:
		return left * right;
	case BRAID_NODE_DIVIDE:
		return right ? left / right : 0;
	case BRAID_NODE_MODULO:
		return right ? left % right : 0;
	default:
		return 0;
	}
}

/* An element of an array that has @room bytes from @at on. */
static u64 element(const struct braid_node *n, const u8 *data, u32 bytes, u32 at, u32 room)
{
	u64 index = braid_node_number(n->left, data, bytes);

	if (!n->size || index >= room / n->size)
		return 0;
	return braid_node_load(data + at + index * n->size, n->size);
}

u64 braid_node_compute(const struct braid_node *n, const u8 *data, u32 bytes)
{
	u32 at, length;
	u64 left;

	switch (n->op) {
	case BRAID_NODE_CONSTANT:
		return n->number;
	case BRAID_NODE_FIELD:
		return braid_node_load(data + n->offset, n->size);
	case BRAID_NODE_ITEM:
		return element(n, data, bytes, n->offset,
			       n->field->size ? n->field->size : bytes - n->offset);
	case BRAID_NODE_ELEMENT:
		at = braid_node_locate(data, bytes, n->offset, n->base, &length);
		return element(n, data, bytes, at, bytes - at);
	case BRAID_NODE_LENGTH:
		braid_node_locate(data, bytes, n->offset, n->base, &length);
		return length;
	case BRAID_NODE_CAST:
		return braid_node_number(n->right, data, bytes) & n->number;
	case BRAID_NODE_CHOICE:
		return braid_node_number(braid_node_number(n->left, data, bytes) ? n->right :
					 n->other, data, bytes);
	}
	left = n->left ? braid_node_number(n->left, data, bytes) : 0;
	return operate(n->op, left, braid_node_number(n->right, data, bytes));
}

struct braid_node *braid_tree_fail(struct braid_tree *tree, const char *why)
{
	if (!tree->why)
		tree->why = why;
	return NULL;
}

struct braid_node *braid_node_new(struct braid_tree *tree, enum braid_node_op op)
{
	struct braid_node *n = calloc(1, sizeof(*n));

	if (!n)
		return braid_tree_fail(tree, "out of memory");
	n->op = op;
	n->all = tree->all;
	tree->all = n;
	return n;
}

/* Operands that are all constant leave one number. */
struct braid_node *braid_node_fold(struct braid_node *n)
{
	const struct braid_node *parts[] = { n->left, n->right, n->other };
	u32 k;

	for (k = 0; k < 3; k++)
		if (parts[k] && parts[k]->op != BRAID_NODE_CONSTANT)
			return n;
	n->number = braid_node_compute(n, NULL, 0);
	n->op = BRAID_NODE_CONSTANT;
	n->depth = 0;
	return n;
}

/* A node over its operands. */
struct braid_node *braid_node_join(struct braid_tree *tree, struct braid_node *n)
{
	const struct braid_node *parts[] = { n->left, n->right, n->other };
	u32 k;

	for (k = 0; k < 3; k++)
		if (parts[k] && parts[k]->depth >= n->depth)
			n->depth = parts[k]->depth + 1;
	if (n->depth > BRAID_MAX_DEPTH)
		return braid_tree_fail(tree, "its print format is too complicated");
	return n;
}

struct braid_node *braid_node_operation(struct braid_tree *tree, enum braid_node_op op,
				    struct braid_node *left, struct braid_node *right)
{
	struct braid_node *n;

	if (!right || (left && !braid_node_is_number(left)) || !braid_node_is_number(right))
		return braid_tree_fail(tree, "its print format does arithmetic on a non-number");
	n = braid_node_new(tree, op);
	if (!n)
		return NULL;
	n->left = left;
	n->right = right;
	n = braid_node_join(tree, n);
	return n ? braid_node_fold(n) : NULL;
}

/* array[index]; a cast of the array gives the elements' size. */
struct braid_node *braid_node_element(struct braid_tree *tree, struct braid_node *array,
				  struct braid_node *index)
{
	u32 bytes = array->op == BRAID_NODE_CAST ? array->base : 0;
	bool dynamic, constant = index->op == BRAID_NODE_CONSTANT;
	struct braid_node *n;

	while (array->op == BRAID_NODE_CAST)
		array = array->right;
	dynamic = array->op == BRAID_NODE_DYNAMIC;
	if ((!dynamic && array->op != BRAID_NODE_FIELD) || !braid_node_is_number(index))
		return braid_tree_fail(tree, "its print format indexes something that is not a field");
	n = braid_node_new(tree, dynamic ? BRAID_NODE_ELEMENT : BRAID_NODE_ITEM);
	if (!n)
		return NULL;
	n->offset = array->offset;
	n->base = array->base;
	n->field = array->field;
	n->left = index;
	bytes = bytes ? bytes : n->field->elementsize;
	n->size = !bytes && dynamic ? 8 : braid_node_size(bytes);
	/* raw_data: all of its bytes say more than the first one. */
	if (!dynamic && !n->field->size)
		return braid_tree_fail(tree, "its print format shows one element of a longer array");
	if (dynamic)
		tree->portable &= constant && index->number <= MAX_INDEX;
	if (constant && !dynamic) {
		if (n->field->flags & BRAID_FIELD_DYNAMIC || index->number >= n->field->size ||
		    (index->number + 1) * bytes > n->field->size)
			return braid_tree_fail(tree, "an index in its print format is too large");
		n->op = BRAID_NODE_FIELD;
		n->offset += index->number * bytes;
		n->left = NULL;
		return n;
	}
	tree->portable &= constant;
	if (n->field->flags & BRAID_FIELD_DYNAMIC && !dynamic)
		return braid_tree_fail(tree, "its print format indexes a dynamic field's word");
	return braid_node_join(tree, n);
}

void braid_tree_free(struct braid_tree *tree)
{
	struct braid_node *n = tree->all, *next;

	for (; n; n = next) {
		next = n->all;
		free(n);
	}
	free(tree->pool);
	memset(tree, 0, sizeof(*tree));
}
