package command

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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
		changeCommand(api, "disable ID", "Refuses a client, and revokes its tokens", http.MethodPost, "clients", "/disable"),
		changeCommand(api, "enable ID", "Lets a disabled client in again", http.MethodPost, "clients", "/enable"),
		changeCommand(api, "remove ID", "Deletes a client, and revokes its tokens", http.MethodDelete, "clients", ""),
	)
}

// warnOf writes what does not work yet to standard error.
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
			request, err := clientRequest(cmd)
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
			if err := api.call(http.MethodPost, "/oauth/clients", request, added); err != nil {
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
				err = printRows(out, append(providerRows(added.Provider), []string{"scopes", strings.Join(added.Scopes, " ")}))
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
	addClientFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("public", "type")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

func clientUpdateCommand(api *apiClient) *cobra.Command {
	cmd := queryCommand("update ID", "Changes what is named of a client, and nothing else", cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string, updated *admin.Client) error {
			request, err := clientRequest(cmd)
			if err != nil {
				return err
			}
			err = api.call(http.MethodPatch, idPath("clients", args[0]), request, updated)
			warnOf(cmd, updated)
			return err
		}, printClient)
	cmd.Long = `Changes what is named of a client. What is repeated replaces the whole list, and
an empty value, as in --redirect-uri "", empties it.

No token ends by it: access tokens keep their scopes until they expire, and a
refresh leaves out those that the client may not have any more. To end them,
use "caddy oauth token revoke --client ID".`
	addClientFlags(cmd)
	return cmd
}

// clientFlags has a flag for each member of a client that an operator can set. A list is a flag that can be repeated.
var clientFlags = []struct {
	name, member string
	none         any
	help         string
}{
	{"name", "name", "", "Name, as people know the client"},
	{"type", "type", "", "confidential (default), public or native"},
	{"grant", "grants", []string(nil), "Grant the client may use; repeat it for more (default: what suits the type)"},
	{"scope", "scopes", []string(nil), "Scope the client may hold; repeat it for more (default: public)"},
	{"redirect-uri", "redirect_uris", []string(nil), "Redirect URI; repeat it for more"},
	{"cors-origin", "cors_origins", []string(nil), "Origin whose pages may call the token endpoint, beside those of a public client's redirect URIs; repeat it for more"},
	{"first-party", "first_party", false, "The client needs no consent"},
	{"revoke-previous-access-token", "revoke_previous_access_token", false, "A refresh ends the previous access token"},
	{"pkce", "pkce", "", `"required": authorization requests need a code_challenge, as those of public and native clients always do; "optional": those of OpenID Connect with a nonce never do`},
	{"id-token-alg", "id_token_signed_response_alg", "", "Algorithm of the client's ID tokens: RS256 (default), ES256 or EdDSA"},
	{"post-logout-redirect-uri", "post_logout_redirect_uris", []string(nil), "Where a sign-out that the client asks for may lead; repeat it for more"},
	{"backchannel-logout-uri", "backchannel_logout_uri", "", "Where the client is told that a session has ended"},
	{"backchannel-logout-session-required", "backchannel_logout_session_required", false, "The client needs the session's id in what it is told"},
	{"jwks", "jwks", "", "File with the client's public keys, a JSON Web Key Set: the client proves who it is with a JWT that it signs (private_key_jwt), and has no secret"},
	{"jwks-uri", "jwks_uri", "", "URL at which the client publishes its keys, in place of --jwks"},
	{"may-exchange", "may_exchange", []string(nil), `What the client may exchange tokens for, as "AUDIENCE... [from AUDIENCE...] [scopes SCOPE...]"; repeat it for more rules`},
	{"lifetime", "tokens", []string(nil), "Own lifetime as NAME=DURATION, such as client_credentials=10m; repeat it for more"},
}

func addClientFlags(cmd *cobra.Command) {
	for _, f := range clientFlags {
		switch none := f.none.(type) {
		case string:
			cmd.Flags().String(f.name, none, f.help)
		case bool:
			cmd.Flags().Bool(f.name, none, f.help)
		case []string:
			cmd.Flags().StringArray(f.name, none, f.help)
		}
	}
}

// clientRequest is the request that the flags which were given make.
func clientRequest(cmd *cobra.Command) (map[string]any, error) {
	flags, request := cmd.Flags(), make(map[string]any)
	for _, f := range clientFlags {
		if !flags.Changed(f.name) {
			continue
		}
		switch f.none.(type) {
		case string:
			request[f.member], _ = flags.GetString(f.name)
		case bool:
			request[f.member], _ = flags.GetBool(f.name)
		case []string:
			request[f.member] = listFlag(cmd, f.name)
		}
	}
	if err := readKeySet(request); err != nil {
		return nil, err
	}
	if flags.Changed("may-exchange") {
		request["may_exchange"] = exchangeRules(listFlag(cmd, "may-exchange"))
	}
	if !flags.Changed("lifetime") {
		return request, nil
	}
	lifetimes := make(map[string]any) // in place of the list
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

func clientList(api *apiClient) *cobra.Command {
	var origin string
	cmd := queryCommand("list", "Lists the clients", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string, clients *[]admin.Client) error {
			path := "/oauth/clients"
			if cmd.Flags().Changed("origin") {
				path += "?origin=" + url.QueryEscape(origin)
			}
			return api.call(http.MethodGet, path, nil, clients)
		},
		func(out io.Writer, clients *[]admin.Client) error {
			return printList(out, "ID\tNAME\tTYPE\tGRANTS\tSCOPES\tSOURCE\tSTATE", *clients, func(c *admin.Client) []string {
				return []string{c.ID, c.Name, string(c.Type), joined(c.Grants), strings.Join(c.Scopes, " "), clientSource(c), clientState(c)}
			})
		})
	cmd.Flags().StringVar(&origin, "origin", "", `Only those that an "operator" has registered, that describe themselves ("metadata"), or that registered themselves ("registration")`)
	return cmd
}

// clientSource says where a client comes from: the configuration, the store, or itself.
func clientSource(c *admin.Client) string { return cmp.Or(string(c.Origin), c.Source) }

func clientState(v *admin.Client) string {
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

func clientShow(api *apiClient) *cobra.Command {
	return queryCommand("show ID", "Shows a client", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, c *admin.Client) error {
			return api.call(http.MethodGet, idPath("clients", args[0]), nil, c)
		}, printClient)
}

func printClient(out io.Writer, c *admin.Client) error {
	rows := [][]string{
		{"id", c.ID}, {"name", c.Name}, {"type", string(c.Type)}, {"grants", joined(c.Grants)},
		{"scopes", strings.Join(c.Scopes, " ")}, {"redirect URIs", strings.Join(c.RedirectURIs, " ")}, {"CORS origins", strings.Join(c.CORSOrigins, " ")},
		{"pkce", c.PKCE}, {"ID token algorithm", string(c.IDTokenAlgorithm)}, {"post-logout redirect URIs", strings.Join(c.PostLogoutRedirectURIs, " ")},
		{"back-channel logout URI", c.BackchannelLogoutURI}, {"authentication", string(c.AuthMethod)}, {"jwks", string(c.JWKS)}, {"jwks_uri", c.JWKSURI},
	}
	rows = append(rows, []string{"response modes", strings.Join(c.ResponseModes, " ")})
	if c.DefaultMaxAge != nil {
		rows = append(rows, []string{"default max_age", strconv.FormatInt(*c.DefaultMaxAge, 10)})
	}
	for _, rule := range c.MayExchange {
		rows = append(rows, []string{"may exchange", exchangeText(rule)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tokens)) {
		rows = append(rows, []string{"lifetime", name + " " + c.Tokens[name]})
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

// secretLife says since when and until when a secret is good.
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
			if err := api.call(http.MethodGet, idPath("clients", args[0]), nil, &before); err != nil {
				return err
			}
			switch {
			case len(before.Secrets) == 0: // a public client may have no secret yet
			case lasts == 0:
				old = " The old one has ended."
			default:
				old = " The old one is good for another " + overlap + "."
			}
			return api.call(http.MethodPost, idPath("clients", args[0])+"/rotate-secret", map[string]string{"overlap": overlap}, rotated)
		},
		func(out io.Writer, rotated *admin.RotatedSecret) error {
			_, err := fmt.Fprintf(out, "client_secret  %s\n\nThis is the only time that the secret is shown.%s\n", rotated.Secret, old)
			return err
		})
	cmd.Flags().StringVar(&overlap, "overlap", "24h", "How long the old secret stays good; 0s ends it now")
	return cmd
}

// providerRows are the names and values that applications ask for.
func providerRows(v *admin.OpenIDProvider) [][]string {
	return [][]string{
		{"issuer", v.Issuer}, {"discovery", v.Discovery}, {"authorization_endpoint", v.Authorization}, {"token_endpoint", v.Token},
		{"userinfo_endpoint", v.UserInfo}, {"end_session_endpoint", v.EndSession}, {"jwks_uri", v.JWKS},
	}
}
