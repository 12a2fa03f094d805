package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

func clientCommand(admin *adminClient) *cobra.Command {
	return group("client", "Manages clients",
		clientAdd(admin), clientList(admin), clientShow(admin), clientRotateSecret(admin),
		change(admin, "disable ID", "Refuses a client, and revokes its tokens", http.MethodPost, "clients", "/disable"),
		change(admin, "enable ID", "Lets a disabled client in again", http.MethodPost, "clients", "/enable"),
		change(admin, "remove ID", "Deletes a client, and revokes its tokens", http.MethodDelete, "clients", ""),
	)
}

func clientAdd(admin *adminClient) *cobra.Command {
	var n newClient
	var kind string
	var grants []string
	var asJSON bool
	cmd := command("add --name NAME", "Registers a client and prints its secret, once", cobra.NoArgs,
		func(_ []string, _ io.Reader, out io.Writer) error {
			n.Type = tokenissuer.ClientType(kind)
			for _, g := range grants {
				n.Grants = append(n.Grants, tokenissuer.GrantType(g))
			}
			var added clientView
			if err := admin.call(http.MethodPost, "/oauth/clients", n, &added); err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, added)
			}
			_, _ = fmt.Fprintf(out, "client_id      %s\n", added.ID)
			if added.Secret == "" {
				return nil
			}
			_, err := fmt.Fprintf(out, "client_secret  %s\n\nThis is the only time that the secret is shown.\n", added.Secret)
			return err
		})
	flags := cmd.Flags()
	flags.StringVar(&n.Name, "name", "", "Name, as people know the client")
	flags.StringVar(&n.ID, "id", "", "Client id (default: generated)")
	flags.StringVar(&kind, "type", "", "confidential (default), public or native")
	flags.StringArrayVar(&grants, "grant", nil, "Grant the client may use; repeat it for more (default: client_credentials)")
	flags.StringArrayVar(&n.Scopes, "scope", nil, "Scope the client may hold; repeat it for more (default: public)")
	flags.StringArrayVar(&n.RedirectURIs, "redirect-uri", nil, "Redirect URI; repeat it for more")
	flags.StringArrayVar(&n.CORSOrigins, "cors-origin", nil, "Origin whose pages may call the token endpoint, beside those of a public client's redirect URIs; repeat it for more")
	flags.BoolVar(&n.FirstParty, "first-party", false, "The client needs no consent")
	flags.BoolVar(&n.RevokePrevious, "revoke-previous-access-token", false, "A refresh ends the access tokens of before")
	flags.StringVar(&n.PKCE, "pkce", "", `"required": authorization requests need a code_challenge, as those of public and native clients always do`)
	_ = cmd.MarkFlagRequired("name")
	return jsonFlag(cmd, &asJSON)
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

func joined(grants []tokenissuer.GrantType) string {
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
		rows := [][2]string{
			{"id", c.ID}, {"name", c.Name}, {"type", string(c.Type)}, {"grants", joined(c.Grants)},
			{"scopes", strings.Join(c.Scopes, " ")}, {"redirect URIs", strings.Join(c.RedirectURIs, " ")}, {"CORS origins", strings.Join(c.CORSOrigins, " ")}, {"pkce", c.PKCE},
			{"source", c.Source}, {"state", c.state()}, {"created", moment(c.CreatedAt)},
		}
		for _, s := range c.Secrets {
			rows = append(rows, [2]string{"secret", s.life()})
		}
		return printRows(out, rows)
	})
	return jsonFlag(cmd, &asJSON)
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
			var rotated clientSecret
			request := map[string]string{"overlap": overlap}
			if err := admin.call(http.MethodPost, adminPath("clients", args[0])+"/rotate-secret", request, &rotated); err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, rotated)
			}
			old := "is good for another " + overlap
			if lasts == 0 {
				old = "has ended"
			}
			_, err = fmt.Fprintf(out, "client_secret  %s\n\nThis is the only time that the secret is shown. The old one %s.\n", rotated.Secret, old)
			return err
		})
	cmd.Flags().StringVar(&overlap, "overlap", "24h", "How long the old secret stays good; 0s ends it now")
	return jsonFlag(cmd, &asJSON)
}
