package command

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

func tokenCommand(api *apiClient) *cobra.Command {
	return group("token", "Mints, explains and revokes access tokens", tokenMint(api), tokenExplain(api), tokenRevoke(api))
}

func tokenMint(api *apiClient) *cobra.Command {
	var client, user, lifetime string
	var scopes []string
	cmd := queryCommand("mint --client ID [--user ID]", "Issues a token for a client, a server token unless it is to act for a user, and prints it", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string, minted *admin.MintedToken) error {
			request := map[string]string{"client": client, "scope": strings.Join(scopes, " "), "lifetime": lifetime}
			if cmd.Flags().Changed("user") { // an empty one is refused: it would make a server token
				request["user"] = user
			}
			return api.call(admin.MintToken.For(), request, minted)
		},
		func(out io.Writer, minted *admin.MintedToken) error {
			_, err := fmt.Fprintln(out, minted.AccessToken)
			return err
		})
	flags := cmd.Flags()
	flags.StringVar(&client, "client", "", "Client the token is for")
	flags.StringVar(&user, "user", "", "User the token acts for, by id or e-mail address (default: none)")
	flags.StringArrayVar(&scopes, "scope", nil, "Scope of the token; repeat it for more (default: public)")
	flags.StringVar(&lifetime, "lifetime", "", "How long the token lives, as in 15m (default: the client's)")
	_ = cmd.MarkFlagRequired("client")
	return cmd
}

func tokenExplain(api *apiClient) *cobra.Command {
	var audience []string
	cmd := queryCommand("explain", "Reads a token from standard input and says which checks it passes", noToken,
		func(cmd *cobra.Command, _ []string, x *admin.Explanation) error {
			tok, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 4*token.MaxTokenBytes))
			if err != nil {
				return err
			}
			request := map[string]any{"token": strings.TrimSpace(string(tok)), "audience": audience}
			return api.call(admin.ExplainToken.For(), request, x)
		}, printExplanation)
	cmd.Flags().StringArrayVar(&audience, "audience", nil, "Audience of the route in question (default: that of the trust, or of our own issuer)")
	return cmd
}

// noToken refuses arguments and does not repeat them.
func noToken(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return errors.New("give the token on standard input, as in `caddy oauth token explain < token`: arguments stand in the list of processes")
	}
	return nil
}

// printExplanation prints an explanation.
func printExplanation(out io.Writer, x *admin.Explanation) error {
	verdict := "The gate refuses this token."
	switch {
	case x.Accepted:
		verdict = "The gate accepts this token."
	case x.Undecided:
		verdict = "Whether the gate accepts this token, only its issuer can say, which was not asked."
	}
	_, _ = fmt.Fprintln(out, verdict)
	if len(x.Trust) > 0 {
		_, _ = fmt.Fprintf(out, "It was taken for a token of trust %s.\n", strings.Join(x.Trust, " or "))
	}
	if x.Resource != "" {
		_, _ = fmt.Fprintf(out, "It was judged for the resource %s, which is its aud. --audience names another.\n", token.Printable(x.Resource))
	}
	if x.What != "" {
		_, _ = fmt.Fprintf(out, "It is %s.\n", x.What)
	}
	_, _ = fmt.Fprintln(out)
	var findings [][]string
	for _, f := range x.Findings {
		promise := f.Promise
		if f.Reason != "" {
			promise = f.Reason + "; needed: " + promise
		}
		if f.Note != "" {
			promise += " (" + f.Note + ")"
		}
		findings = append(findings, []string{f.Check, string(f.Outcome), promise})
	}
	if err := printTable(out, findings...); err != nil {
		return err
	}
	if x.Unverified != nil {
		return printUnverified(out, x.Unverified)
	}
	if x.Subject == "" {
		if x.Family == "" {
			return nil
		}
		_, err := fmt.Fprintf(out, "\nfamily  %s\n", x.Family)
		return err
	}
	_, _ = fmt.Fprintln(out)
	return printRows(out, [][]string{
		{"subject", x.Subject}, {"actor", x.Actor}, {"client", x.ClientID}, {"scope", x.Scope}, {"aud", strings.Join(x.Audience, ", ")}, {"jti", x.ID}, {"family", x.Family},
		{"key", x.KeyID}, {"issued", moment(x.IssuedAt)}, {"expires", moment(x.ExpiresAt)},
	})
}

// printUnverified prints the claims of a token whose signature was not verified.
func printUnverified(out io.Writer, u *admin.UnverifiedToken) error {
	_, _ = fmt.Fprint(out, "\nIt says, and nobody has verified it:\n\n")
	var rows [][]string
	for _, part := range []struct {
		name   string
		object jsontext.Value
	}{{"header", u.Header}, {"claim", u.Claims}} {
		var members map[string]jsontext.Value
		_ = json.Unmarshal(part.object, &members) // an object, or nothing
		for _, name := range slices.Sorted(maps.Keys(members)) {
			value := token.Printable(string(members[name]))
			if seconds, err := strconv.ParseInt(value, 10, 40); err == nil && slices.Contains([]string{"iat", "exp", "nbf", "auth_time"}, name) {
				value += " (" + moment(time.Unix(seconds, 0)) + ")"
			}
			rows = append(rows, []string{"  " + part.name, token.Printable(name), value})
		}
	}
	return printTable(out, rows...)
}

func tokenRevoke(api *apiClient) *cobra.Command {
	kinds := []struct{ name, help string }{
		{"jti", "Id of one token"},
		{"family", "Id of a token family (sid): everything that descends from one sign-in"},
		{"user", "Id or e-mail address of a user: every token issued until now, every session, and what the user has created for others"},
		{"client", "Id of a client: every token issued until now"},
	}
	values := make([]string, len(kinds))
	var force bool
	cmd := command("revoke (--jti ID | [--force] (--family ID | --user ID | --client ID))", "Revokes access tokens", cobra.NoArgs,
		func(*cobra.Command, []string) error {
			request := make(map[string]any)
			for i, kind := range kinds {
				if values[i] != "" {
					request[kind.name] = values[i]
				}
			}
			if len(request) != 1 {
				return errors.New("name one of --jti, --family, --user and --client")
			}
			if force {
				if request["jti"] != nil {
					return errors.New("--force belongs to --family, --user and --client")
				}
				request["force"] = true
			}
			return api.call(admin.Revoke.For(), request, nil)
		})
	for i, kind := range kinds {
		cmd.Flags().StringVar(&values[i], kind.name, "", kind.help)
	}
	cmd.Flags().BoolVar(&force, "force", false, "Also for what is not known here, as of another issuer")
	return cmd
}
