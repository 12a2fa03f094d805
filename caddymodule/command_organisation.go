package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func organisationCommand(admin *adminClient) *cobra.Command {
	return group("org", "Manages organisations", organisationAdd(admin), organisationList(admin),
		change(admin, "remove ID", "Deletes an organisation that has no users", http.MethodDelete, "organisations", ""))
}

func organisationAdd(admin *adminClient) *cobra.Command {
	var n newOrganisation
	var asJSON bool
	cmd := command("add ID --name NAME", "Registers an organisation", cobra.ExactArgs(1),
		func(args []string, _ io.Reader, out io.Writer) error {
			n.ID = args[0]
			var added organisationView
			if err := admin.call(http.MethodPost, "/oauth/organisations", n, &added); err != nil {
				return err
			}
			if asJSON {
				return printJSON(out, added)
			}
			_, err := fmt.Fprintf(out, "organisation  %s\n", added.ID)
			return err
		})
	cmd.Flags().StringVar(&n.Name, "name", "", "Name, as people know the organisation")
	_ = cmd.MarkFlagRequired("name")
	return jsonFlag(cmd, &asJSON)
}

func organisationList(admin *adminClient) *cobra.Command {
	var asJSON bool
	cmd := command("list", "Lists the organisations", cobra.NoArgs, func(_ []string, _ io.Reader, out io.Writer) error {
		var organisations []organisationView
		if err := admin.call(http.MethodGet, "/oauth/organisations", nil, &organisations); err != nil {
			return err
		}
		if asJSON {
			return printJSON(out, organisations)
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "ID\tNAME\tSOURCE\tCREATED")
		for _, o := range organisations {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", o.ID, o.Name, o.Source, moment(o.CreatedAt))
		}
		return table.Flush()
	})
	return jsonFlag(cmd, &asJSON)
}
