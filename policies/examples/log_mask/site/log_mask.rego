# METADATA
# title: What a decision log must not hold
# description: Paths as OPA's own decision logs name them; what stands there is removed.
package system.log

# METADATA
# title: Who the user is stays out of the log
# labels: {id: mask_user}
mask contains "/input/tenant/user"

# METADATA
# title: Labels may carry anything
# labels: {id: mask_labels}
mask contains "/input/request/labels"
