# METADATA
# title: Priority, and how strongly requests prefer a warm endpoint
package kvasir.affinity

import data.kvasir.admission
import data.kvasir.admission.tenant

# METADATA
# title: The requested class, if granted
# labels: {id: priority_asked}
priority := input.request.priority if asked_granted

asked_granted if input.request.priority in admission.classes

# METADATA
# title: Else standard, if granted
# labels: {id: priority_standard}
priority := "standard" if {
	not asked_granted
	standard_granted
}

standard_granted if "standard" in admission.classes

# METADATA
# title: Else the lowest granted class
# labels: {id: priority_lowest}
priority := lowest if {
	not asked_granted
	not standard_granted
	[_, lowest] := min([[data.classes[name].priority, name] | some name in admission.classes])
}

# METADATA
# title: The settings of the class, with defaults
# labels: {id: class_affinity}
settings := {"weight": weight, "max_share": max_share, "sticky": sticky}

class := data.classes[priority]

default weight := 1

weight := class.affinity.weight

# By default one tenant holds at most half of an endpoint's work.
default max_share := 0.5

max_share := class.affinity.max_share

default sticky := false

sticky := class.affinity.sticky

default prefer := []

# METADATA
# title: Endpoints that the tenant prefers, among those it may use
# labels: {id: tenant_prefer}
prefer := tenant.prefer
