package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"

	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
)

// routesCommand prints what protects the routes that answer from a backend.
func routesCommand(api *apiClient) *cobra.Command {
	return queryCommand("routes", "Shows every route to an upstream, what protects it, and what is open", cobra.NoArgs,
		func(_ *cobra.Command, _ []string, routes *[]coverage.Route) error {
			return api.call(admin.ShowRoutes.For(), nil, routes)
		},
		func(out io.Writer, routes *[]coverage.Route) error {
			if len(*routes) == 0 {
				_, err := fmt.Fprintln(out, "no route to an upstream")
				return err
			}
			rows := [][]string{{"SITE\tPATH\tUPSTREAM\tVERDICT\tNEEDS\tWHERE"}}
			for _, r := range *routes {
				route := strings.Join([]string{r.Site, pathOf(&r), upstreamOf(&r), r.Verdict}, "\t")
				for _, need := range needsOf(&r) {
					rows = append(rows, []string{route, need[0], need[1]})
					route = "\t\t\t" // further requirements are printed below
				}
			}
			return printTable(out, rows...)
		})
}

// pathOf words which requests reach the route.
func pathOf(r *coverage.Route) string {
	path := strings.Join(r.Paths, " ")
	if path == "" {
		path = "*"
	}
	for _, match := range r.Match {
		if !strings.HasPrefix(match, "path ") {
			path += ", " + match
		}
	}
	if r.ErrorRoute {
		path += " (errors)"
	}
	return path
}

// upstreamOf names the backend.
func upstreamOf(r *coverage.Route) string {
	if len(r.Upstreams) == 0 {
		return r.Handler
	}
	return r.Handler + " " + strings.Join(r.Upstreams, " ")
}

// needsOf lists what a request needs to reach the route, with positions in the Caddyfile.
func needsOf(r *coverage.Route) [][2]string {
	if len(r.Gates) == 0 {
		return [][2]string{{r.Why, ""}}
	}
	var lines [][2]string
	for i := range r.Gates {
		where := r.Gates[i].Source
		for _, need := range gateNeeds(&r.Gates[i]) {
			lines = append(lines, [2]string{need, where})
			where = ""
		}
	}
	return lines
}

// gateNeeds lists what one `protect` requires, and which requests it exempts.
func gateNeeds(g *coverage.Gate) []string {
	lines := []string{"a token of " + strings.Join(g.Issuers, " or ")}
	if g.Optional {
		lines[0] += ", or none"
	}
	if len(g.Only) > 0 {
		lines[0] += ", only for " + strings.Join(g.Only, ", ")
	}
	if len(g.Scopes) > 0 {
		lines = append(lines, "scope "+strings.Join(g.Scopes, " "))
	}
	lines = append(lines, g.Rules...)
	if g.MCP {
		lines = append(lines, "as an MCP server, a token for its resource")
	}
	for _, tool := range g.Tools {
		lines = append(lines, "tool "+tool)
	}
	for _, anonymous := range g.Anonymous {
		lines = append(lines, "nothing for "+anonymous)
	}
	return lines
}
