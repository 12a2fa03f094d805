package caddymodule

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func clientCommand(admin *adminClient) *cobra.Command {
	return group("client", "Manages clients",
		clientAdd(admin), clientUpdateCommand(admin), clientList(admin), clientShow(admin), clientRotateSecret(admin),
		change(admin, "disable ID", "Refuses a client, and revokes its tokens", http.MethodPost, "clients", "/disable"),
		change(admin, "enable ID", "Lets a disabled client in again", http.MethodPost, "clients", "/enable"),
		change(admin, "remove ID", "Deletes a client, and revokes its tokens", http.MethodDelete, "clients", ""),
	)
}

func clientAdd(admin *adminClient) *cobra.Command {
	var id string
	var asJSON bool
	var cmd *cobra.Command
	cmd = command("add --name NAME", "Registers a client and prints its secret, once", cobra.NoArgs,
		func(_ []string, _ io.Reader, out io.Writer) error {
			request, err := clientMembers(cmd)
			if err != nil {
				return err
			}
			if id != "" {
				request["id"] = id
			}
			var added clientView
			if err := admin.call(http.MethodPost, "/oauth/clients", request, &added); err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, added)
			}
			_, _ = fmt.Fprintf(out, "client_id      %s\n", added.ID)
			if added.Secret == "" {
				return nil
			}
			_, err = fmt.Fprintf(out, "client_secret  %s\n\nThis is the only time that the secret is shown.\n", added.Secret)
			return err
		})
	cmd.Flags().StringVar(&id, "id", "", "Client id (default: generated)")
	addClientFlags(cmd)
	_ = cmd.MarkFlagRequired("name")
	return jsonFlag(cmd, &asJSON)
}

func clientUpdateCommand(admin *adminClient) *cobra.Command {
	var asJSON bool
	var cmd *cobra.Command
	cmd = command("update ID", "Changes what is named of a client, and nothing else", cobra.ExactArgs(1),
		func(args []string, _ io.Reader, out io.Writer) error {
			request, err := clientMembers(cmd)
			if err != nil {
				return err
			}
			var updated clientView
			if err := admin.call(http.MethodPatch, adminPath("clients", args[0]), request, &updated); err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, updated)
			}
			return updated.print(out)
		})
	cmd.Long = `Changes what is named of a client. What is repeated replaces the whole list, and
an empty value, as in --redirect-uri "", empties it.

No token ends by it: access tokens keep their scopes until they expire, and a
refresh leaves out those that the client may not have any more. To end them,
use "caddy oauth token revoke --client ID".`
	addClientFlags(cmd)
	return jsonFlag(cmd, &asJSON)
}

// addClientFlags adds a flag for each member of a client that an operator can set.
func addClientFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.String("name", "", "Name, as people know the client")
	flags.String("type", "", "confidential (default), public or native")
	flags.StringArray("grant", nil, "Grant the client may use; repeat it for more (default: what suits the type)")
	flags.StringArray("scope", nil, "Scope the client may hold; repeat it for more (default: public)")
	flags.StringArray("redirect-uri", nil, "Redirect URI; repeat it for more")
	flags.StringArray("cors-origin", nil, "Origin whose pages may call the token endpoint, beside those of a public client's redirect URIs; repeat it for more")
	flags.Bool("first-party", false, "The client needs no consent")
	flags.Bool("revoke-previous-access-token", false, "A refresh ends the previous access token")
	flags.String("pkce", "", `"required": authorization requests need a code_challenge, as those of public and native clients always do`)
	flags.StringArray("lifetime", nil, "Own lifetime as NAME=DURATION, such as client_credentials=10m; repeat it for more")
}

// clientMembers is the request that the flags which were given make.
func clientMembers(cmd *cobra.Command) (map[string]any, error) {
	flags, request := cmd.Flags(), make(map[string]any)
	for _, name := range []string{"name", "type", "pkce"} {
		if flags.Changed(name) {
			request[name], _ = flags.GetString(name)
		}
	}
	for flag, member := range map[string]string{"first-party": "first_party", "revoke-previous-access-token": "revoke_previous_access_token"} {
		if flags.Changed(flag) {
			request[member], _ = flags.GetBool(flag)
		}
	}
	for flag, member := range map[string]string{"grant": "grants", "scope": "scopes", "redirect-uri": "redirect_uris", "cors-origin": "cors_origins"} {
		if flags.Changed(flag) {
			request[member] = listFlag(cmd, flag)
		}
	}
	if !flags.Changed("lifetime") {
		return request, nil
	}
	lifetimes := make(map[string]any)
	for _, text := range listFlag(cmd, "lifetime") {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("--lifetime %q: write it as client_credentials=10m", text)
		}
		lifetimes[name] = value
		if value == "true" || value == "false" { // of refresh_grace_same_address
			lifetimes[name] = value == "true"
		}
	}
	request["tokens"] = lifetimes
	return request, nil
}

// listFlag returns the values of a flag that can be repeated, without empty ones.
func listFlag(cmd *cobra.Command, name string) []string {
	values, _ := cmd.Flags().GetStringArray(name)
	return slices.DeleteFunc(values, func(text string) bool { return text == "" })
}

func clientList(admin *adminClient) *cobra.Command {
	var asJSON bool
	cmd := command("list", "Lists the clients", cobra.NoArgs, func(_ []string, _ io.Reader, out io.Writer) error {
		var clients []clientView
		if err := admin.call(http.MethodGet, "/oauth/clients", nil, &clients); err != nil {
			return err
		}
		if asJSON {
			return printJSON(out, clients)
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "ID\tNAME\tTYPE\tGRANTS\tSCOPES\tSOURCE\tSTATE")
		for _, c := range clients {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
				c.ID, c.Name, c.Type, joined(c.Grants), strings.Join(c.Scopes, " "), c.Source, c.state())
		}
		return table.Flush()
	})
	return jsonFlag(cmd, &asJSON)
}

func (v *clientView) state() string {
	if v.Disabled {
		return "disabled"
	}
	return "enabled"
}

func joined(grants []oauth.GrantType) string {
	names := make([]string, len(grants))
	for i, g := range grants {
		names[i] = string(g)
	}
	return strings.Join(names, " ")
}

func clientShow(admin *adminClient) *cobra.Command {
	var asJSON bool
	cmd := command("show ID", "Shows a client", cobra.ExactArgs(1), func(args []string, _ io.Reader, out io.Writer) error {
		var c clientView
		if err := admin.call(http.MethodGet, adminPath("clients", args[0]), nil, &c); err != nil {
			return err
		}
		if asJSON {
			return printJSON(out, c)
		}
		return c.print(out)
	})
	return jsonFlag(cmd, &asJSON)
}

// print writes the client for people.
func (v *clientView) print(out io.Writer) error {
	rows := [][2]string{
		{"id", v.ID}, {"name", v.Name}, {"type", string(v.Type)}, {"grants", joined(v.Grants)},
		{"scopes", strings.Join(v.Scopes, " ")}, {"redirect URIs", strings.Join(v.RedirectURIs, " ")}, {"CORS origins", strings.Join(v.CORSOrigins, " ")},
		{"pkce", v.PKCE},
	}
	for _, name := range slices.Sorted(maps.Keys(v.Tokens)) {
		rows = append(rows, [2]string{"lifetime", name + " " + v.Tokens[name]})
	}
	rows = append(rows, [2]string{"source", v.Source}, [2]string{"state", v.state()}, [2]string{"created", moment(v.CreatedAt)})
	for _, s := range v.Secrets {
		rows = append(rows, [2]string{"secret", s.life()})
	}
	return printRows(out, rows)
}

// life says since when and until when a secret is good.
func (s secretView) life() string {
	switch {
	case s.CreatedAt.IsZero():
		return "from the configuration"
	case s.ExpiresAt.IsZero():
		return "made " + moment(s.CreatedAt)
	default:
		return "made " + moment(s.CreatedAt) + ", good until " + moment(s.ExpiresAt)
	}
}

func clientRotateSecret(admin *adminClient) *cobra.Command {
	var overlap string
	var asJSON bool
	cmd := command("rotate-secret ID", "Makes a new secret and prints it, once", cobra.ExactArgs(1),
		func(args []string, _ io.Reader, out io.Writer) error {
			lasts, err := caddy.ParseDuration(overlap)
			if err != nil {
				return fmt.Errorf("%q is no duration: write it as 90s, 15m, 2h or 28d", overlap)
			}
			var before clientView // a public client may have no secret yet
			if err := admin.call(http.MethodGet, adminPath("clients", args[0]), nil, &before); err != nil {
				return err
			}
			var rotated clientSecret
			request := map[string]string{"overlap": overlap}
			if err := admin.call(http.MethodPost, adminPath("clients", args[0])+"/rotate-secret", request, &rotated); err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, rotated)
			}
			old := " The old one is good for another " + overlap + "."
			switch {
			case len(before.Secrets) == 0:
				old = ""
			case lasts == 0:
				old = " The old one has ended."
			}
			_, err = fmt.Fprintf(out, "client_secret  %s\n\nThis is the only time that the secret is shown.%s\n", rotated.Secret, old)
			return err
		})
	cmd.Flags().StringVar(&overlap, "overlap", "24h", "How long the old secret stays good; 0s ends it now")
	return jsonFlag(cmd, &asJSON)
}
