package command

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

func personalTokenCommand(api *apiClient) *cobra.Command {
	return group("pat", "Manages personal access tokens", personalTokenAdd(api), personalTokenList(api),
		changeCommand(api, "remove ID", "Ends a personal access token at once, on every node", admin.RemovePersonalToken))
}

func personalTokenAdd(api *apiClient) *cobra.Command {
	var n admin.NewPersonalToken
	var scopes []string
	cmd := queryCommand("add --user ID|EMAIL --name NAME --scope SCOPE", "Makes a personal access token for a user or a service account and prints it, once", cobra.NoArgs,
		func(_ *cobra.Command, _ []string, added *admin.PersonalToken) error {
			n.Scope = strings.Join(scopes, " ")
			return api.call(admin.AddPersonalToken.For(), n, added)
		},
		func(out io.Writer, added *admin.PersonalToken) error {
			_, err := fmt.Fprintf(out, "id       %s\ntoken    %s\nexpires  %s\n\nThis is the only time that the token is shown.\n", added.ID, added.Token, moment(added.ExpiresAt))
			return err
		})
	flags := cmd.Flags()
	flags.StringVar(&n.User, "user", "", "User or service account that the token acts for, by the id or the e-mail address")
	flags.StringVar(&n.Name, "name", "", "Name, as its owner sees it")
	flags.StringArrayVar(&scopes, "scope", nil, "Scope of the token; repeat it for more")
	flags.StringVar(&n.Lifetime, "expires", "", "How long it lives, as 30d (default: that of the configuration)")
	flags.StringArrayVar(&n.Resources, "resource", nil, "Resource that the token is for; repeat it for more (default: the issuer's audience)")
	for _, name := range []string{"user", "name", "scope"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}

func personalTokenList(api *apiClient) *cobra.Command {
	var user string
	cmd := queryCommand("list", "Lists personal access tokens", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string, tokens *[]admin.PersonalToken) error {
			request := admin.ListPersonalTokens.For()
			if cmd.Flags().Changed("user") {
				request = admin.UserPersonalTokens.For(user)
			}
			return api.call(request, nil, tokens)
		},
		func(out io.Writer, tokens *[]admin.PersonalToken) error {
			return printList(out, "ID\tUSER\tNAME\tSCOPES\tLAST USED\tEXPIRES", *tokens, func(p *admin.PersonalToken) []string {
				expires := moment(p.ExpiresAt)
				if p.Expired {
					expires = "expired"
				}
				return []string{p.ID, p.User, p.Name, p.Scope, day(p.LastUsedAt), expires}
			})
		})
	cmd.Flags().StringVar(&user, "user", "", "User or service account whose tokens to list (default: all)")
	return cmd
}

// day formats a date; the zero time is "never".
func day(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.DateOnly)
}

func serviceAccountCommand(api *apiClient) *cobra.Command {
	return group("service-account", "Manages service accounts: users with whom nobody signs in, for programs with personal access tokens",
		serviceAccountAdd(api), serviceAccountList(api),
		changeCommand(api, "disable ID", "Refuses a service account, and ends every token", admin.DisableUser),
		changeCommand(api, "enable ID", "Lets a disabled service account in again, with new tokens", admin.EnableUser),
		changeCommand(api, "remove ID", "Deletes a service account, and ends every token", admin.RemoveUser))
}

func serviceAccountAdd(api *apiClient) *cobra.Command {
	account := struct {
		ID      string   `json:"id"`
		Service bool     `json:"service"`
		Name    string   `json:"name,omitzero"`
		Org     string   `json:"organisation,omitzero"`
		Role    string   `json:"role,omitzero"`
		Groups  []string `json:"groups,omitempty"`
	}{Service: true}
	cmd := queryCommand("add --id ID", "Adds a service account", cobra.NoArgs,
		func(_ *cobra.Command, _ []string, added *admin.User) error {
			return api.call(admin.AddUser.For(), account, added)
		},
		func(out io.Writer, added *admin.User) error {
			_, err := fmt.Fprintf(out, "service account  %s\n\nGive it a token: caddy oauth pat add --user %[1]s --name NAME --scope SCOPE\n", added.ID)
			return err
		})
	flags := cmd.Flags()
	flags.StringVar(&account.ID, "id", "", "Id, as upstreams see it")
	flags.StringVar(&account.Name, "name", "", "Name, as people know it (default: the id)")
	flags.StringVar(&account.Org, "org", "", "Organisation it belongs to (default: none)")
	flags.StringVar(&account.Role, "role", "", "Role (default: as for users)")
	flags.StringArrayVar(&account.Groups, "group", nil, "Group it belongs to; repeat it for more")
	_ = cmd.MarkFlagRequired("id")
	return cmd
}

func serviceAccountList(api *apiClient) *cobra.Command {
	return queryCommand("list", "Lists the service accounts", cobra.NoArgs,
		func(_ *cobra.Command, _ []string, users *[]admin.User) error {
			err := allOf(api, admin.ListUsers, url.Values{}, users)
			*users = slices.DeleteFunc(*users, func(u admin.User) bool { return !u.Service })
			return err
		},
		func(out io.Writer, users *[]admin.User) error {
			return printList(out, "ID\tNAME\tORGANISATION\tROLE\tSTATE", *users, func(u *admin.User) []string {
				return []string{u.ID, u.Name, u.Organisation, roleInWords(u), userState(u)}
			})
		})
}
