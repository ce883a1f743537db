# METADATA
# title: Values that a decision log must not contain
# description: Paths as in OPA's own decision logs; the values at these paths are removed.
package system.log

# METADATA
# title: The log does not name the user
# labels: {id: mask_user}
mask contains "/input/tenant/user"

# METADATA
# title: Labels may contain any text
# labels: {id: mask_labels}
mask contains "/input/request/labels"
