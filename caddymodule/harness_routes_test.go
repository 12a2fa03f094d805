package caddymodule

import "strings"

// The routes of the sites that tests run with.

// gated is a route below a path, or for all requests when that is empty: a gate with these settings, and the upstream behind it. What
// follows a space in the path are the scopes of the gate.
func gated(path string, settings ...string) string {
	return route("handle "+path, "UPSTREAM", settings)
}

// gatedBelow is gated for an upstream that sees the path without what the route is for.
func gatedBelow(path string, settings ...string) string {
	return route("handle_path "+path, "UPSTREAM", settings)
}

// gatedDown is gated for an upstream that is not there.
func gatedDown(path string, settings ...string) string {
	return route("handle "+path, "127.0.0.1:1", settings)
}

func route(matched, upstream string, settings []string) string {
	directive, rest, _ := strings.Cut(matched, " ")
	path, scopes, _ := strings.Cut(rest, " ")
	return handled(strings.TrimSpace(directive+" "+path), strings.TrimSpace("protect "+scopes)+block("\t\t", settings), "reverse_proxy "+upstream)
}

// handled is a route with these directives.
func handled(head string, directives ...string) string {
	return "\t" + head + block("\t", directives) + "\n"
}

// inOrder is a route below a path with these directives, which Caddy does not sort.
func inOrder(path string, directives ...string) string {
	return handled(strings.TrimSpace("handle "+path), "route"+block("\t\t", directives))
}

// protect is the directive with these settings.
func protect(settings ...string) string { return "protect" + block("\t\t\t", settings) }

// block is what follows a directive that has further lines.
func block(indent string, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return " {\n" + indent + "\t" + strings.Join(lines, "\n"+indent+"\t") + "\n" + indent + "}"
}

// errorsProxied are error routes that go to the upstream too.
const errorsProxied = "\thandle_errors {\n\t\treverse_proxy UPSTREAM\n\t}\n"
