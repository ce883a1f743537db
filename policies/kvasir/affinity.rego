# METADATA
# title: Priority, and how hard to stick to a warm endpoint
package kvasir.affinity

import data.kvasir.admission
import data.kvasir.admission.tenant

# METADATA
# title: The class that was asked for, if granted
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
# title: Else the lowest that was granted
# labels: {id: priority_lowest}
priority := lowest if {
	not asked_granted
	not standard_granted
	[_, lowest] := min([[data.classes[name].priority, name] | some name in admission.classes])
}

# METADATA
# title: What the class says, and what is left open by it
# labels: {id: class_affinity}
settings := {"weight": weight, "max_share": max_share, "sticky": sticky}

class := data.classes[priority]

default weight := 1

weight := class.affinity.weight

# No endpoint gives one tenant more than half of its work unless the class says so.
default max_share := 0.5

max_share := class.affinity.max_share

default sticky := false

sticky := class.affinity.sticky

default prefer := []

# METADATA
# title: Endpoints the tenant likes better, among those it may use
# labels: {id: tenant_prefer}
prefer := tenant.prefer
