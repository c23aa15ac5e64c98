/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parses a print format: its string and the expressions of its arguments. */
#ifndef BRAID_FORMAT_TREE_H
#define BRAID_FORMAT_TREE_H

#include "host_agent/format/node.h"

#define BRAID_MAX_NESTING	64u	/* of expressions */

struct braid_tree {
	const char *format;		/* the string, with its escapes */
	struct braid_node *args;	/* a list */
	/*
	 * libtraceevent parses it too, and safely: it divides by any value while parsing, and
	 * lacks some operators.
	 */
	bool portable;
	struct braid_node *all;
	char *pool;			/* of strings */
	const char *why;		/* it failed */
};

/** braid_tree_fail - note why, unless something failed before; Return: NULL */
struct braid_node *braid_tree_fail(struct braid_tree *tree, const char *why);

/** braid_node_new - a node of a tree; NULL: noted */
struct braid_node *braid_node_new(struct braid_tree *tree, enum braid_node_op op);

/** braid_node_join - note a node's depth after its operands were set; NULL: noted */
struct braid_node *braid_node_join(struct braid_tree *tree, struct braid_node *n);

/** braid_node_fold - a node whose operands are all constant becomes one number */
struct braid_node *braid_node_fold(struct braid_node *n);

/** braid_node_operation - a node over one or two numbers; NULL: noted */
struct braid_node *braid_node_operation(struct braid_tree *tree, enum braid_node_op op,
					struct braid_node *left, struct braid_node *right);

/** braid_node_element - array[index]; a cast of the array gives the elements' size */
struct braid_node *braid_node_element(struct braid_tree *tree, struct braid_node *array,
				      struct braid_node *index);

/**
 * braid_tree_parse - parse a print format
 * @tree: set on success; free it with braid_tree_free()
 * @text: from "print fmt:" on; ends with NUL
 * @layout: of the event; must outlive the tree
 *
 * Return: NULL, or why not.
 */
const char *braid_tree_parse(struct braid_tree *tree, const char *text,
			     const struct braid_layout *layout);

/** braid_tree_free - free what it holds */
void braid_tree_free(struct braid_tree *tree);

#endif /* BRAID_FORMAT_TREE_H */
