package site

# METADATA
# title: A principal may make only the calls of its role, whatever scopes its credential has
# labels: {id: admin_outside_role}
# schemas:
# - input: schema.admin
admin_denials contains "outside_role" if not within_role

# METADATA
# schemas:
# - input: schema.admin
within_role if {
	area := split(input.verb, ":")[0]
	some role in input.principal.groups
	data.site_data.admin_rbac[role][area] == true
}

# METADATA
# title: The author of a policy or a plugin cannot activate it; any administrator may undo
# labels: {id: admin_author_activates}
# schemas:
# - input: schema.admin
admin_denials contains "author_activates" if {
	input.verb in {"policy:activate", "plugin:activate"}
	not input.object.undo
	not two_people
}

# METADATA
# schemas:
# - input: schema.admin
two_people if input.object.author != input.principal.id
