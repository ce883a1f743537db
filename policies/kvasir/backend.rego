# METADATA
# title: Which endpoints may join which pool
# description: |
#   Evaluated when an endpoint registers, never per request. A pool lists the
#   networks and hosts of its endpoints, and the labels that they may have.
# schemas:
# - input: schema.backend
# - data.kvasir.backend.pool: schema.backend_pool
package kvasir.backend

# METADATA
# title: Denied by default
# entrypoint: true
# labels: {id: backend_default_deny}
default allow := false

# METADATA
# labels: {id: backend_allow}
allow if {
	input.version == "1"
	is_object(pool)
	count(refusals) == 0
}

pool := data.backends[input.backend.pool]

url := uri.parse(input.backend.url)

# METADATA
# labels: {id: backend_scheme}
refusals contains "scheme_not_allowed" if not scheme_known

scheme_known if url.scheme in {"http", "https"}

# METADATA
# title: Plain HTTP only if the pool allows it
# labels: {id: backend_plain}
refusals contains "plain_http_not_allowed" if {
	not encrypted
	not plain_http_allowed
}

encrypted if url.scheme == "https"

plain_http_allowed if pool.plain_http == true

# METADATA
# labels: {id: backend_address}
refusals contains "address_not_allowed" if not known_address

known_address if pool.hosts[url.hostname] == true

known_address if {
	# a name is not an address: its addresses are not known here
	regex.match(`^([0-9.]+|[0-9a-f:]+)$`, url.hostname)
	some network in pool.networks
	net.cidr_contains(network, url.hostname)
}

# METADATA
# title: Each label has a value that the pool lists
# labels: {id: backend_labels}
refusals contains "label_not_allowed" if not labels_allowed

labels_allowed if {
	every name, value in input.backend.labels {
		pool.labels[name][value] == true
	}
}

# METADATA
# title: An endpoint has each label that the pool lists, so that no constraint finds it missing
# labels: {id: backend_labels_missing}
refusals contains "label_missing" if {
	some name, _ in pool.labels
	not input.backend.labels[name]
}

# METADATA
# title: Denials of the site
# labels: {id: backend_site_denial}
refusals contains reason if some reason in data.site.backend_denials

# METADATA
# title: A site's rule of another type denies
# labels: {id: backend_site_misconfigured}
refusals contains "site_misconfigured" if {
	found := data.site.backend_denials
	not is_set(found)
}
