package command

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

func providerCommand(api *apiClient) *cobra.Command {
	return group("provider", "Shows and tests the identity providers at which people sign in", providerList(api), providerTest(api))
}

func providerList(api *apiClient) *cobra.Command {
	return listCommand(api, "Lists the identity providers", admin.ListProviders, "NAME\tKIND\tURL\tREDIRECT URIS\tSTATE", func(p *admin.Provider) []string {
		return []string{p.Name, p.Kind, p.URL, strings.Join(p.RedirectURIs, " "), providerState(p.Trouble, p.LastSuccess.IsZero() && p.LastFailure.IsZero())}
	})
}

// providerState words the state of a provider. An untried one has neither succeeded nor failed since the start.
func providerState(trouble string, untried bool) string {
	if untried {
		return cmp.Or(trouble, "not tried yet")
	}
	return cmp.Or(trouble, "good")
}

// providerTest prints the steps of a test. It fails if a step fails, for scripts.
func providerTest(api *apiClient) *cobra.Command {
	failed, request := false, admin.ProviderTest{}
	cmd := queryCommand("test NAME [--login LOGIN]", "Looks at a provider now, and says step by step what works and what does not", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, steps *[]signin.Step) error {
			err := api.call(admin.TestProvider.For(args[0]), request, steps)
			failed = slices.ContainsFunc(*steps, func(s signin.Step) bool { return s.Result == signin.Failed })
			return err
		},
		func(out io.Writer, steps *[]signin.Step) error {
			return printList(out, "STEP\tRESULT\tWHAT", *steps, func(s *signin.Step) []string {
				return []string{s.Name, string(s.Result), s.Text}
			})
		})
	cmd.Flags().StringVar(&request.Login, "login", "", "Somebody to look for in a directory, by what they would type to sign in; no password is needed")
	cmd.PostRunE = func(*cobra.Command, []string) error {
		if failed {
			return errors.New("people cannot sign in at the provider")
		}
		return nil
	}
	return cmd
}
