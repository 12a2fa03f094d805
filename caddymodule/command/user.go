package command

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func userCommand(api *apiClient) *cobra.Command {
	return group("user", "Manages users",
		userAdd(api), userList(api), userShow(api), userSessions(api), userUpdateCommand(api), userSetPassword(api), userSetRole(api), userGroup(api), userImport(api), userExport(api), userInvite(api), userRecover(api), factorsCommand(api),
		changeCommand(api, "disable ID|EMAIL", "Refuses a user, and ends every token and session", admin.DisableUser),
		changeCommand(api, "enable ID|EMAIL", "Lets a disabled or locked user in again", admin.EnableUser),
		changeCommand(api, "lock ID|EMAIL", "Refuses a user whose account may be in other hands, and ends every token and session",
			admin.LockUser),
		changeCommand(api, "remove ID|EMAIL", "Deletes a user, and ends every token and session", admin.RemoveUser),
	)
}

func userAdd(api *apiClient) *cobra.Command {
	var id, password, hash string
	var fromInput bool
	cmd := queryCommand("add --email ADDRESS [--org ID] [--role ROLE]", "Registers a user", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string, added *admin.User) error {
			request, err := userRequest(cmd)
			switch {
			case err != nil:
			case fromInput:
				password, err = readPassword(cmd.InOrStdin(), cmd.ErrOrStderr())
			case hash == "":
				password, err = askPassword(cmd.InOrStdin(), cmd.ErrOrStderr())
			}
			if err != nil {
				return err
			}
			request["id"], request["password"], request["password_hash"] = id, password, hash
			if err := api.call(admin.AddUser.For(), request, added); err != nil {
				return err
			}
			if password == "" && hash == "" {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "No password was given: the user signs in at a provider, or not before one is set. "+
					"--password-stdin reads one from standard input.")
			}
			return nil
		},
		func(out io.Writer, added *admin.User) error {
			_, err := fmt.Fprintf(out, "user  %s\n", added.ID)
			if err == nil && !added.HasPassword {
				_, err = fmt.Fprintf(out, "\nThe user cannot sign in before a password is set: caddy oauth user set-password %s --password-stdin\n", added.ID)
			}
			return err
		})
	addUserFlags(cmd)
	_ = cmd.Flags().MarkHidden("status") // a new user is active
	cmd.Flags().StringVar(&id, "id", "", "User id (default: generated)")
	cmd.Flags().StringVar(&hash, "password-hash", "", "Hash of the password, as printed by caddy hash-password")
	passwordFlag(cmd, &fromInput)
	_ = cmd.MarkFlagRequired("email")
	cmd.MarkFlagsMutuallyExclusive("password-stdin", "password-hash")
	return cmd
}

var userType = reflect.TypeFor[store.User]()

// addUserFlags adds the flags of a user's members, and that of email_verified.
func addUserFlags(cmd *cobra.Command) {
	addMemberFlags(cmd, userType, "")
	cmd.Flags().Bool(emailVerifiedFlag, false, "The e-mail address is known to be the user's own")
}

const emailVerifiedFlag = "email-verified"

// userRequest is the request that the flags of addUserFlags make which were given.
func userRequest(cmd *cobra.Command) (map[string]any, error) {
	request, err := memberRequest(cmd, userType, "")
	if err == nil && cmd.Flags().Changed(emailVerifiedFlag) {
		request["email_verified"], err = cmd.Flags().GetBool(emailVerifiedFlag)
	}
	return request, err
}

func userList(api *apiClient) *cobra.Command {
	cmd := queryCommand("list", "Lists the users", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string, users *[]admin.User) error {
			return allOf(api, admin.ListUsers, userFilter(cmd), users)
		},
		func(out io.Writer, users *[]admin.User) error {
			return printList(out, "ID\tEMAIL\tNAME\tORGANISATION\tROLE\tGROUPS\tSOURCE\tSTATE", *users, func(u *admin.User) []string {
				groups := slices.Concat(u.Groups, u.ProviderGroups)
				return []string{u.ID, u.Email, u.Name, u.Organisation, roleInWords(u), strings.Join(groups, ", "), u.Source, userState(u)}
			})
		})
	cmd.Long = `Lists the users, by id, those of the configuration first; with --search by the
text that begins so. With several filters, those that meet all.`
	addUserFilter(cmd)
	return cmd
}

// filter is a flag of a list, with the member of the query that it sets.
type filter struct{ flag, member, help string }

// addFilters adds the flags of filters.
func addFilters(cmd *cobra.Command, filters []filter) {
	for _, f := range filters {
		cmd.Flags().String(f.flag, "", f.help)
	}
}

// filterOf is the query that the flags make which were given. An empty one is refused: it would list everything.
func filterOf(cmd *cobra.Command, filters []filter) url.Values {
	query := url.Values{}
	for _, f := range filters {
		if cmd.Flags().Changed(f.flag) {
			value, _ := cmd.Flags().GetString(f.flag)
			query.Set(f.member, value)
		}
	}
	return query
}

// userFilters are the flags of lists of users.
var userFilters = []filter{
	{"search", "search", "Users whose name, e-mail address or preferred username begins so, in any case"},
	{"org", "organisation", "Users of the organisation of that id"},
	{"organisation", "organisation", "The same as --org"},
	{"group", "group", "Users in the group"},
	{"role", "role", "Users with the role"},
	{"provider", "provider", "Users with an account at the identity provider"},
	{"state", "state", "Users in the state: active, disabled, locked or invited (active, and cannot sign in yet)"},
}

// addUserFilter adds the flags of userFilter.
func addUserFilter(cmd *cobra.Command) {
	addFilters(cmd, userFilters)
	cmd.Flags().Bool("without-factor", false, "Users without a second factor")
	_ = cmd.Flags().MarkHidden("organisation")
	completes(cmd, "state", store.UserStates())
	completes(cmd, "role", memberValues[reflect.TypeFor[store.Role]()])
}

// userFilter is the query of the flags of addUserFilter.
func userFilter(cmd *cobra.Command) url.Values {
	query := filterOf(cmd, userFilters)
	if without, _ := cmd.Flags().GetBool("without-factor"); without {
		query.Set("without_factor", "true")
	}
	return query
}

// roleInWords is the user's role, with what became of it.
func roleInWords(v *admin.User) string {
	if v.RoleUndeclared {
		return string(v.Role) + " (not declared)"
	}
	return string(v.Role)
}

// userState says whether the user can sign in, and if not, why.
func userState(v *admin.User) string {
	if v.Status == store.UserActive && v.Service {
		return "service account"
	}
	if v.Status == store.UserActive && !v.HasPassword && !v.External {
		return "no password"
	}
	return string(v.Status)
}

func userShow(api *apiClient) *cobra.Command {
	return queryCommand("show ID|EMAIL", "Shows a user", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, u *admin.User) error {
			return api.call(admin.ShowUser.For(args[0]), nil, u)
		},
		func(out io.Writer, u *admin.User) error {
			if u.Profile == nil {
				u.Profile = new(store.Profile)
			}
			return printRows(out, [][]string{
				{"id", u.ID}, {"e-mail", u.Email}, {"name", u.Name}, {"organisation", u.Organisation}, {"role", roleInWords(u)},
				{"groups", strings.Join(u.Groups, ", ")}, {"groups by " + u.GroupsBy, strings.Join(u.ProviderGroups, ", ")},
				{"signs in at", strings.Join(identitiesInWords(u), ", ")},
				{"source", u.Source}, {"state", userState(u)}, {"created", moment(u.CreatedAt)},
				{"e-mail verified by", u.EmailVerifiedBy}, {"given name", u.GivenName}, {"family name", u.FamilyName},
				{"preferred username", u.PreferredUsername}, {"locale", u.Locale}, {"time zone", u.Zoneinfo}, {"picture", u.Picture},
				{"phone", u.Phone}, {"phone verified", yesIf(u.PhoneVerified)}, {"address", inOneLine(u.Address)},
			})
		})
}

// identitiesInWords are the accounts at identity providers with which the user signs in.
func identitiesInWords(u *admin.User) []string {
	var words []string
	for _, i := range u.Identities {
		words = append(words, i.Provider+" as "+i.Subject)
	}
	return words
}

// yesIf says yes, or nothing.
func yesIf(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

// inOneLine is an address as it is shown in a row.
func inOneLine(a store.Address) string {
	parts := []string{a.Formatted, a.StreetAddress, a.PostalCode, a.Locality, a.Region, a.Country}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return strings.Join(strings.Fields(strings.Join(parts, ", ")), " ")
}

func userUpdateCommand(api *apiClient) *cobra.Command {
	var identities string
	cmd := queryCommand("update ID|EMAIL", "Changes what is named of a user; another role, status, organisation or other groups end every token and session",
		cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string, u *admin.User) error {
			request, err := userRequest(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("identities") {
				request["identities"] = identities
			}
			if len(request) == 0 {
				return errors.New("name what to change: --name, --email, --role, --status, --org, --group, --identities, --email-verified or a member of the profile")
			}
			return api.call(admin.UpdateUser.For(args[0]), request, u)
		},
		func(io.Writer, *admin.User) error { return nil })
	cmd.Long = `Changes what is named of a user. What is repeated replaces the whole list, and
an empty value, as in --role "" or --group "", takes a member away.`
	addUserFlags(cmd)
	cmd.Flags().StringVar(&identities, "identities", "", "Accounts at providers with which the user signs in: keep or unlink; unlink ends every token and session")
	return cmd
}

func userSetPassword(api *apiClient) *cobra.Command {
	var fromInput bool
	cmd := command("set-password ID|EMAIL --password-stdin", "Gives a user another password, and ends every token and session",
		cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
			password, err := readPassword(cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return api.call(admin.SetPassword.For(args[0]), admin.NewPassword{Password: password}, nil)
		})
	passwordFlag(cmd, &fromInput)
	_ = cmd.MarkFlagRequired("password-stdin")
	return cmd
}

func userSetRole(api *apiClient) *cobra.Command {
	cmd := command("set-role ID|EMAIL ROLE", "Gives a user another role, and ends every token and session", cobra.ExactArgs(2),
		func(_ *cobra.Command, args []string) error {
			return api.call(admin.SetRole.For(args[0]), map[string]string{"role": args[1]}, nil)
		})
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return memberValues[reflect.TypeFor[store.Role]()], cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func userSessions(api *apiClient) *cobra.Command {
	return queryCommand("sessions ID|EMAIL", "Lists the browsers in which a user is signed in, with the hosts where each is used, and which applications are told when that ends", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, sessions *[]admin.Session) error {
			return api.call(admin.UserSessions.For(args[0]), nil, sessions)
		},
		func(out io.Writer, sessions *[]admin.Session) error {
			rows := [][]string{{"ID\tBROWSER, HOST\tSINCE\tLAST SEEN\tTOLD"}}
			for _, s := range *sessions {
				rows = append(rows, []string{s.ID, s.Browser, moment(s.CreatedAt), moment(s.LastSeen), strings.Join(s.Told, " ")})
				for _, host := range s.Hosts {
					rows = append(rows, []string{host.ID, "  " + host.Host, moment(host.CreatedAt), moment(host.LastSeen), ""})
				}
			}
			return printTable(out, rows...)
		})
}
