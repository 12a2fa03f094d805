package caddymodule

import "strings"

// This file builds routes of Caddyfiles.

// gated returns a route below path, or for all requests if path is empty, with a gate in front of the upstream. Words after a space in path are
// the scopes of the gate.
func gated(path string, settings ...string) string {
	return route("handle "+path, "UPSTREAM", settings)
}

// gatedBelow is like gated and strips the route's path.
func gatedBelow(path string, settings ...string) string {
	return route("handle_path "+path, "UPSTREAM", settings)
}

// gatedDown is like gated with an upstream that is down.
func gatedDown(path string, settings ...string) string {
	return route("handle "+path, "127.0.0.1:1", settings)
}

func route(matched, upstream string, settings []string) string {
	directive, rest, _ := strings.Cut(matched, " ")
	path, scopes, _ := strings.Cut(rest, " ")
	return handled(strings.TrimSpace(directive+" "+path), strings.TrimSpace("protect "+scopes)+block("\t\t", settings), "reverse_proxy "+upstream)
}

// handled returns a route with these directives.
func handled(head string, directives ...string) string {
	return "\t" + head + block("\t", directives) + "\n"
}

// inOrder is like handled with directives that Caddy does not sort.
func inOrder(path string, directives ...string) string {
	return handled(strings.TrimSpace("handle "+path), "route"+block("\t\t", directives))
}

// protect returns the directive with these settings.
func protect(settings ...string) string { return "protect" + block("\t\t\t", settings) }

// block returns the lines of a directive in braces.
func block(indent string, lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return " {\n" + indent + "\t" + strings.Join(lines, "\n"+indent+"\t") + "\n" + indent + "}"
}

// errorsProxied are error routes to the upstream.
const errorsProxied = "\thandle_errors {\n\t\treverse_proxy UPSTREAM\n\t}\n"
