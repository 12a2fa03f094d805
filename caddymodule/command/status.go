package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// statusCommand prints the state of a node. It fails if the node is not ready, for scripts.
func statusCommand(api *apiClient) *cobra.Command {
	ready := false
	cmd := queryCommand("status", "Shows whether this node can serve, and how it stands", cobra.NoArgs,
		func(_ *cobra.Command, _ []string, s *admin.NodeStatus) error {
			err := api.call(admin.ShowStatus.For(), nil, s)
			ready = s.Ready
			return err
		},
		func(out io.Writer, s *admin.NodeStatus) error { return printRows(out, statusRows(s)) })
	cmd.PostRunE = func(*cobra.Command, []string) error {
		if !ready {
			return errors.New("the node is not ready")
		}
		return nil
	}
	return cmd
}

// statusRows are the rows of the command.
func statusRows(s *admin.NodeStatus) [][]string {
	rows := [][]string{{"ready", yesOrNo(s.Ready)}, {"version", s.Version}}
	for _, reason := range s.Reasons {
		rows = append(rows, []string{"because", reason})
	}
	if s.Own != nil {
		rows = append(rows, issuerRows(s.Own)...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Trust)) {
		rows = append(rows, []string{"trust " + name, cmp.Or(s.Trust[name], "good")})
	}
	rows = append(rows, trustKeyRows(s.TrustKeys)...)
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		rows = append(rows, []string{"provider " + name, providerState(s.Providers[name], slices.Contains(s.UntriedProviders, name))})
	}
	return append(rows, []string{"open streams", strconv.Itoa(s.Streams)})
}

func issuerRows(s *admin.IssuerStatus) (rows [][]string) {
	read := "never read"
	if s.Staleness != nil {
		read = fmt.Sprintf("read %.0f s ago", *s.Staleness)
	}
	rows = append(rows, [][]string{
		{"issuer", cmp.Or(s.Issuer, "none, sessions alone")}, {"store", s.Store},
		{"revocations", fmt.Sprintf("%d, %s", s.Revocations, read)},
		{"keys", inWordsOf(s.Keys)},
		{"signing keys", signingKeys(s)},
		{"store's clock", fmt.Sprintf("%+.3f s", s.ClockSkew)},
		{"verified tokens", strconv.Itoa(s.Verified)},
		{"housekeeper", yesOrNo(s.Housekeeper)},
	}...)
	if s.AuditDropped > 0 {
		rows = append(rows, []string{"events not kept", strconv.FormatInt(s.AuditDropped, 10)})
	}
	if s.Mail != nil {
		rows = append(rows, []string{"mail", providerState(s.Mail.Trouble, s.Mail.LastSuccess.IsZero())})
	}
	for _, table := range slices.Sorted(maps.Keys(s.Stored)) {
		rows = append(rows, []string{"stored " + table, strconv.FormatInt(s.Stored[table], 10)})
	}
	return rows
}

// signingKeys lists the signing keys, each after its algorithm.
func signingKeys(s *admin.IssuerStatus) string {
	var parts []string
	for _, algorithm := range slices.Sorted(maps.Keys(s.Signing)) {
		parts = append(parts, string(algorithm)+" "+cmp.Or(s.Signing[algorithm], "none"))
	}
	return strings.Join(parts, ", ")
}

func yesOrNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// inWordsOf lists the counts above zero by name.
func inWordsOf(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(parts, ", ")
}

// trustKeyRows has a row for each key of each trusted issuer, and one for the last error of fetching them.
func trustKeyRows(reports map[string]fetch.KeysReport) (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		report := reports[name]
		if report.Failed != "" {
			rows = append(rows, []string{"trust " + name + " keys", "the last fetch failed: " + report.Failed})
		}
		for _, key := range report.Keys {
			said := "unusable: " + key.Unusable
			if key.Unusable == "" {
				var algorithms []string
				for _, algorithm := range key.Algorithms {
					algorithms = append(algorithms, string(algorithm))
				}
				said = key.Type + " for " + strings.Join(algorithms, ", ")
			}
			keyID := "without a kid"
			if key.ID != "" {
				keyID = token.Printable(key.ID)
			}
			rows = append(rows, []string{"trust " + name + " key " + keyID, said})
		}
	}
	return rows
}
