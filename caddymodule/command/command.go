// Package command is the command line `caddy oauth …`, a client of the admin endpoint of a running Caddy.
//
// command.go calls the endpoint and prints tables. The commands about a kind of thing are in the file with its name.
package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// documentation ends every help text.
const documentation = `
Full documentation is available at:
https://github.com/gatehouse-auth/gatehouse/blob/main/docs/operations.md#the-command-line
`

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "oauth",
		Short: "Manages the clients, users, tokens and keys of the running OAuth issuer",
		Long: `
Manages what the OAuth issuer of a running Caddy keeps in its store. It talks to
the admin endpoint of that Caddy, and finds it as ` + "`caddy reload`" + ` does: by --address,
in the file of --config, or in the Caddyfile of the working directory.

What the Caddyfile declares is listed as well, with the source "config", and
cannot be changed from here.`,
		CobraFunc: func(cmd *cobra.Command) {
			api := new(apiClient)
			flags := cmd.PersistentFlags()
			flags.StringVar(&api.address, "address", "", "Address of the admin endpoint, if not the default")
			flags.StringVarP(&api.config, "config", "c", "", "Configuration file to learn the address from")
			flags.StringVarP(&api.adapter, "adapter", "a", "", "Name of the adapter for that file")
			cmd.Args, cmd.RunE = cobra.NoArgs, showHelp
			cmd.SetHelpTemplate(cmd.HelpTemplate() + documentation) // which else points to Caddy's
			cmd.AddCommand(clientCommand(api), organisationCommand(api), userCommand(api), serviceAccountCommand(api), personalTokenCommand(api), tokenCommand(api), sessionCommand(api), keysCommand(api),
				providerCommand(api), mailCommand(api), auditCommand(api), statusCommand(api), routesCommand(api), backupCommand(api), migrateCommand(api), importCommand(api))
		},
	})
}

// apiClient calls the admin endpoint.
type apiClient struct{ address, config, adapter string }

// call sends a request with a JSON body, or none when it is nil, and decodes the answer into answer unless that is nil.
func (c *apiClient) call(request admin.Request, body, answer any) error {
	_, err := c.callFor(request, body, answer)
	return err
}

// callFor is call, and returns the header of the answer too.
func (c *apiClient) callFor(request admin.Request, body, answer any) (http.Header, error) {
	response, err := c.open(request, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if answer == nil {
		return response.Header, nil
	}
	if err := json.UnmarshalRead(response.Body, answer); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return response.Header, nil
}

// open is call for an answer that the caller reads and closes.
func (c *apiClient) open(request admin.Request, body any) (*http.Response, error) {
	address, err := c.endpoint()
	if err != nil {
		return nil, fmt.Errorf("finding the admin endpoint: %w", err)
	}
	var content io.Reader
	if request.Method == http.MethodPost || request.Method == http.MethodPatch {
		if body == nil {
			body = struct{}{}
		}
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(encoded)
	}
	// Each call of this function has a pool of connections of its own, which would keep one for every page and batch.
	header := http.Header{"Connection": {"close"}}
	response, err := caddycmd.AdminAPIRequest(address, request.Method, request.Path, header, content)
	if err != nil {
		return nil, plainError(address, err)
	}
	return response, nil
}

// errEnough is returned by the callback of eachPage for no further page.
var errEnough = errors.New("enough")

// eachPage calls a list that is read in pages, and each with the items of a page.
func eachPage[T any](c *apiClient, list admin.Route, query url.Values, each func([]T) error) error {
	if !query.Has("limit") {
		query.Set("limit", strconv.Itoa(store.MaxPage))
	}
	for request := list.For().With(query); ; {
		var items []T
		header, err := c.callFor(request, nil, &items)
		if err == nil {
			err = each(items)
		}
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
		link, isNext := strings.CutSuffix(header.Get("Link"), `>; rel="next"`)
		if !isNext {
			return nil
		}
		request.Path = strings.TrimPrefix(link, "<")
	}
}

// allOf calls a list that is read in pages, and collects the items.
func allOf[T any](c *apiClient, list admin.Route, query url.Values, all *[]T) error {
	*all = []T{}
	return eachPage(c, list, query, func(items []T) error {
		*all = append(*all, items...)
		return nil
	})
}

// endpoint is the address of the admin endpoint, found as `caddy reload` finds it: without --address and --config also in the
// Caddyfile of the working directory.
func (c *apiClient) endpoint() (string, error) {
	if c.address != "" {
		return c.address, nil
	}
	config, file, err := loadConfig(c.config, c.adapter)
	if err != nil {
		return "", fmt.Errorf("%w: give it with --address", err)
	}
	return caddycmd.DetermineAdminAPIAddress("", config, file, c.adapter)
}

// loadConfig is caddycmd.LoadConfig without its log lines.
func loadConfig(file, adapter string) (config []byte, found string, err error) {
	_, usual, buffered := caddy.BufferedLog()
	defer func() {
		buffered.FlushTo(zap.NewNop())
		caddy.UnbufferDefaultLogger(usual)
	}()
	config, found, _, err = caddycmd.LoadConfig(file, adapter)
	return config, found, err
}

// plainError extracts the error from the JSON answer of the endpoint. An error without JSON means that the endpoint did not answer. The
// text of a JSON error may also name a refused connection: that of the database.
func plainError(address string, err error) error {
	text := err.Error()
	if start := strings.IndexByte(text, '{'); start >= 0 {
		var answer struct {
			Error string `json:"error"`
		}
		if json.Unmarshal([]byte(text[start:]), &answer) == nil && answer.Error != "" {
			return errors.New(answer.Error)
		}
	}
	if errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(text, "connection refused") {
		return fmt.Errorf("nothing answers at %s: is Caddy running? If it is, give its admin endpoint with --address", address)
	}
	return err
}

// command builds a command. Wrong usage shows the help; a failure of run shows only the error.
func command(use, short string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.SilenceUsage = true
			return run(cmd, args)
		},
	}
}

// queryCommand builds a command that prints the answer: as JSON with --json, otherwise by show.
func queryCommand[T any](use, short string, args cobra.PositionalArgs, ask func(cmd *cobra.Command, args []string, answer *T) error,
	show func(out io.Writer, answer *T) error,
) *cobra.Command {
	var asJSON bool
	cmd := command(use, short, args, func(cmd *cobra.Command, args []string) error {
		var answer T
		if err := ask(cmd, args, &answer); err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), answer)
		}
		return show(cmd.OutOrStdout(), &answer)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "Print JSON")
	return cmd
}

// listCommand builds a command that lists the items of a route, one row per item below the headings, which tabs separate.
func listCommand[T any](api *apiClient, short string, route admin.Route, headings string, row func(*T) []string) *cobra.Command {
	return queryCommand("list", short, cobra.NoArgs,
		func(_ *cobra.Command, _ []string, items *[]T) error {
			return api.call(route.For(), nil, items)
		},
		func(out io.Writer, items *[]T) error { return printList(out, headings, *items, row) })
}

// group builds a command with subcommands. An unknown subcommand is an error, and not a call for help: a script must not take a misspelled
// command for one that worked.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(commands...)
	return cmd
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// changeCommand builds a command that changes one thing and prints nothing.
func changeCommand(api *apiClient, use, short string, route admin.Route) *cobra.Command {
	return command(use, short, cobra.ExactArgs(1), func(_ *cobra.Command, args []string) error {
		return api.call(route.For(args[0]), nil, nil)
	})
}

// printTable writes rows in columns.
func printTable(out io.Writer, rows ...[]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

// printList writes one row per item below the headings, which tabs separate.
func printList[T any](out io.Writer, headings string, items []T, row func(*T) []string) error {
	rows := [][]string{{headings}}
	for i := range items {
		rows = append(rows, row(&items[i]))
	}
	return printTable(out, rows...)
}

// printRows writes names and values, and omits empty values.
func printRows(out io.Writer, rows [][]string) error {
	return printTable(out, slices.DeleteFunc(rows, func(row []string) bool { return row[1] == "" })...)
}

// moment formats a time; the zero time is empty.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// printJSON writes JSON.
func printJSON(out io.Writer, value any) error {
	if err := json.MarshalWrite(out, value, jsontext.WithIndent("  "), json.Deterministic(true)); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out)
	return err
}
