package command

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func clientCommand(api *apiClient) *cobra.Command {
	return group("client", "Manages clients",
		clientAdd(api), clientUpdateCommand(api), clientList(api), clientShow(api), clientRotateSecret(api),
		changeCommand(api, "disable ID", "Refuses a client, and revokes its tokens", admin.DisableClient),
		changeCommand(api, "enable ID", "Lets a disabled client in again", admin.EnableClient),
		changeCommand(api, "remove ID", "Deletes a client, and revokes its tokens", admin.RemoveClient),
	)
}

// warnOf writes the warning of an answer to standard error.
func warnOf(cmd *cobra.Command, c *admin.Client) {
	if c.Warning != "" {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "Warning: "+c.Warning)
	}
}

func clientAdd(api *apiClient) *cobra.Command {
	var id string
	var openID, public bool
	cmd := queryCommand("add --name NAME [--openid --redirect-uri URI]", "Registers a client and prints its secret, once", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string, added *admin.Client) error {
			request, err := memberRequest(cmd, clientType, "")
			if err != nil {
				return err
			}
			if id != "" {
				request["id"] = id
			}
			if openID {
				request["openid"] = true
			}
			if public {
				request["type"] = store.PublicClient
			}
			if err := api.call(admin.AddClient.For(), request, added); err != nil {
				return err
			}
			warnOf(cmd, added)
			return nil
		},
		func(out io.Writer, added *admin.Client) error {
			_, err := fmt.Fprintf(out, "client_id      %s\n", added.ID)
			if err == nil && added.Secret != "" {
				_, err = fmt.Fprintf(out, "client_secret  %s\n", added.Secret)
			}
			if err == nil && added.Provider != nil {
				_, _ = fmt.Fprintln(out)
				err = printRows(out, append(providerRows(added.Provider), []string{"scopes", added.Scopes.String()}))
			}
			if err == nil && added.Secret != "" {
				_, err = fmt.Fprint(out, "\nThis is the only time that the secret is shown.\n")
			}
			return err
		})
	cmd.Long = `Registers a client and prints its secret, once.

With --openid it is an application that signs people in by OpenID Connect: it
gets the scopes openid, profile, email and offline_access beside those of
--scope, and the grants that it needs, and what it has to know of the issuer is
printed: most applications ask for the issuer or the discovery URL, the client
id and the secret. --redirect-uri is the URL that the application shows.`
	cmd.Flags().StringVar(&id, "id", "", "Client id (default: generated)")
	cmd.Flags().BoolVar(&openID, "openid", false, "The application signs people in by OpenID Connect; print what it has to know")
	cmd.Flags().BoolVar(&public, "public", false, "The same as --type public: the application runs in a browser, without a secret")
	addMemberFlags(cmd, clientType, "")
	cmd.MarkFlagsMutuallyExclusive("public", "type")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

func clientUpdateCommand(api *apiClient) *cobra.Command {
	cmd := queryCommand("update ID", "Changes what is named of a client, and nothing else", cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string, updated *admin.Client) error {
			request, err := memberRequest(cmd, clientType, "")
			if err != nil {
				return err
			}
			err = api.call(admin.UpdateClient.For(args[0]), request, updated)
			warnOf(cmd, updated)
			return err
		}, printClient)
	cmd.Long = `Changes what is named of a client. What is repeated replaces the whole list, and
an empty value, as in --redirect-uri "", empties it. A --lifetime leaves the
others: NAME= takes one back, and --lifetime "" all.

No token ends by it: access tokens keep their scopes until they expire, and a
refresh leaves out those that the client may not have any more. To end them,
use "caddy oauth token revoke --client ID".`
	addMemberFlags(cmd, clientType, "")
	return cmd
}

var clientType = reflect.TypeFor[store.Client]()

func clientList(api *apiClient) *cobra.Command {
	cmd := queryCommand("list", "Lists the clients", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string, clients *[]admin.Client) error {
			return allOf(api, admin.ListClients, filterOf(cmd, clientFilters), clients)
		},
		func(out io.Writer, clients *[]admin.Client) error {
			return printList(out, "ID\tNAME\tTYPE\tGRANTS\tSCOPES\tSOURCE\tSTATE", *clients, func(c *admin.Client) []string {
				return []string{c.ID, c.Name, string(c.Type), joined(c.Grants), c.Scopes.String(), clientSource(c), clientState(c)}
			})
		})
	cmd.Long = `Lists the clients, by id, those of the configuration first; with --search by the
text that begins so. With several filters, those that meet all.`
	addFilters(cmd, clientFilters)
	completes(cmd, "origin", []string{"operator", string(store.FromMetadata), string(store.FromRegistration)})
	completes(cmd, "state", []string{string(store.ClientEnabled), string(store.ClientDisabled)})
	return cmd
}

// clientFilters are the flags of the list of clients.
var clientFilters = []filter{
	{"search", "search", "Clients whose id or name begins so, in any case"},
	{"origin", "origin", `Only those that an "operator" has registered, that describe themselves ("metadata"), or that registered themselves ("registration")`},
	{"state", "state", "Clients in the state: enabled or disabled"},
}

// clientSource names the origin of a client: the configuration, the store, or the client itself.
func clientSource(c *admin.Client) string { return cmp.Or(string(c.Origin), c.Source) }

func clientState(v *admin.Client) string {
	if v.Disabled {
		return string(store.ClientDisabled)
	}
	return string(store.ClientEnabled)
}

func joined(grants []oauth.GrantType) string {
	names := make([]string, len(grants))
	for i, g := range grants {
		names[i] = string(g)
	}
	return strings.Join(names, " ")
}

func clientShow(api *apiClient) *cobra.Command {
	return queryCommand("show ID", "Shows a client", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, c *admin.Client) error {
			return api.call(admin.ShowClient.For(args[0]), nil, c)
		}, printClient)
}

func printClient(out io.Writer, c *admin.Client) error {
	rows := append([][]string{{"id", c.ID}}, memberRows(&c.Client)...)
	if c.AuthMethod != "" {
		rows = append(rows, []string{"authentication", c.AuthMethod})
	}
	rows = append(rows, []string{"source", clientSource(c)}, []string{"state", clientState(c)}, []string{"created", moment(c.CreatedAt)})
	if !c.LastUsedAt.IsZero() {
		rows = append(rows, []string{"last used", moment(c.LastUsedAt)})
	}
	for _, s := range c.Secrets {
		rows = append(rows, []string{"secret", secretLife(s)})
	}
	return printRows(out, rows)
}

// secretLife words the validity of a secret.
func secretLife(s admin.ClientSecret) string {
	switch {
	case s.CreatedAt.IsZero():
		return "from the configuration"
	case s.ExpiresAt.IsZero():
		return "made " + moment(s.CreatedAt)
	default:
		return "made " + moment(s.CreatedAt) + ", good until " + moment(s.ExpiresAt)
	}
}

func clientRotateSecret(api *apiClient) *cobra.Command {
	var overlap, old string
	cmd := queryCommand("rotate-secret ID", "Makes a new secret and prints it, once", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, rotated *admin.RotatedSecret) error {
			lasts, err := caddy.ParseDuration(overlap)
			if err != nil {
				return fmt.Errorf("%q is no duration: write it as 90s, 15m, 2h or 28d", overlap)
			}
			var before admin.Client
			if err := api.call(admin.ShowClient.For(args[0]), nil, &before); err != nil {
				return err
			}
			switch {
			case len(before.Secrets) == 0: // a public client may have no secret yet
			case lasts == 0:
				old = " The old one has ended."
			default:
				old = " The old one is good for another " + overlap + "."
			}
			return api.call(admin.RotateSecret.For(args[0]), map[string]string{"overlap": overlap}, rotated)
		},
		func(out io.Writer, rotated *admin.RotatedSecret) error {
			_, err := fmt.Fprintf(out, "client_secret  %s\n\nThis is the only time that the secret is shown.%s\n", rotated.Secret, old)
			return err
		})
	cmd.Flags().StringVar(&overlap, "overlap", "24h", "How long the old secret stays good; 0s ends it now")
	return cmd
}

// providerRows are the settings that applications need.
func providerRows(v *admin.OpenIDProvider) [][]string {
	return [][]string{
		{"issuer", v.Issuer}, {"discovery", v.Discovery}, {"authorization_endpoint", v.Authorization}, {"token_endpoint", v.Token},
		{"userinfo_endpoint", v.UserInfo}, {"end_session_endpoint", v.EndSession}, {"jwks_uri", v.JWKS},
	}
}
