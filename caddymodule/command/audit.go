package command

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// auditRows is the number of events in the table, unless --limit says otherwise.
const auditRows = 100

func auditCommand(api *apiClient) *cobra.Command {
	filters := map[string]*string{}
	var limit int
	var asJSON bool
	cmd := command("audit", "Shows the events of the audit log that are kept in the store, newest first", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		for name, value := range filters {
			if cmd.Flags().Changed(name) {
				query.Set(name, *value)
			}
		}
		if asJSON {
			if cmd.Flags().Changed("limit") {
				query.Set("limit", strconv.Itoa(limit))
			}
			return copyAudit(cmd.OutOrStdout(), api, query)
		}
		return printAudit(cmd.OutOrStdout(), api, query, limit)
	})
	flags := cmd.Flags()
	for name, usage := range map[string]string{
		"user": "Of this user, by the id or the e-mail address", "client": "Of this client, by the id", "event": "With this message, as \"sign-in refused\"",
		"reason": "With this reason, as token_missing", "host": "Of requests to this host",
		"since": "Not before: how long ago, as 24h, or a time, as 2006-01-02 or 2006-01-02T15:04:05Z", "until": "Before: written as --since",
	} {
		filters[name] = flags.String(name, "", usage)
	}
	flags.IntVar(&limit, "limit", auditRows, "How many events, the newest; with --json all, unless it is given")
	flags.BoolVar(&asJSON, "json", false, "Print each event as a line of JSON")
	return cmd
}

// copyAudit prints events as JSON lines, as they come. It fails if they end too early.
func copyAudit(out io.Writer, api *apiClient, query url.Values) error {
	response, err := api.open(admin.ExportAudit.For().With(query), nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(out, response.Body); err != nil {
		return fmt.Errorf("these are not all events: %w", err)
	}
	return nil
}

// printAudit prints the newest events as a table.
func printAudit(out io.Writer, api *apiClient, query url.Values, limit int) error {
	if limit < 1 {
		return fmt.Errorf("--limit %d: use a number above zero", limit)
	}
	query.Set("limit", strconv.Itoa(min(limit, store.MaxPage)))
	rows, left := [][]string{{"TIME", "EVENT", "USER", "CLIENT", "REASON", "AT", "FROM", "BY"}}, limit
	err := eachPage(api, admin.ListAudit, query, func(events []admin.AuditEvent) error {
		for i := range events[:min(left, len(events))] {
			row, err := auditRow(&events[i])
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		if left -= len(events); left <= 0 {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printTable(out, rows...)
}

// auditRow is an event in the table.
func auditRow(e *admin.AuditEvent) ([]string, error) {
	var line struct {
		Event    string `json:"msg"`
		Subject  string `json:"subject"`
		Account  string `json:"account"`
		ClientID string `json:"client_id"`
		Reason   string `json:"reason"`
		Missing  string `json:"missing"`
		Host     string `json:"host"`
		Path     string `json:"path"`
		Address  string `json:"address"`
		By       string `json:"by"`
		Operator string `json:"operator"`
		Admin    string `json:"admin"`
	}
	if err := json.Unmarshal(e.Line, &line); err != nil {
		return nil, fmt.Errorf("reading event %s: %w", e.ID, err)
	}
	if line.Missing != "" {
		line.Reason += " (" + line.Missing + ")"
	}
	row := []string{
		moment(e.Time), line.Event, cmp.Or(line.Subject, line.Account), line.ClientID, line.Reason, line.Host + line.Path, line.Address,
		cmp.Or(line.Operator, line.Admin, line.By),
	}
	for i, cell := range row {
		row[i] = printable(cell)
	}
	return row, nil
}

// printable replaces what a terminal would not print: strangers have written it.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}
