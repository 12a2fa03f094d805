// Command lint checks Go code by the rules of staticcheck and of some well-kept linters beside it, in the frontend of staticcheck. It takes
// packages, for example ./..., and prints what it has found. A line that is right as it is says so: //lint:ignore, the name of the check, and
// the reason.
package main

import (
	"errors"
	"go/token"
	"os"
	"slices"
	"strings"

	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/kisielk/errcheck/errcheck"
	revive "github.com/mgechev/revive/lint"
	"github.com/mgechev/revive/rule"
	gosec "github.com/securego/gosec/v2/goanalysis"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/lintcmd/version"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	cmd := lintcmd.NewCommand("lint")
	cmd.SetVersion(version.Version, version.MachineVersion)
	// Comments and names are read by revive. Naming an embedded part says whose field it is.
	must(cmd.FlagSet().Set("checks", "all,-ST1000,-ST1003,-ST1016,-ST1020,-ST1021,-ST1022"))
	// Names such as TokenEndpoint are no credentials (G101), errcheck looks for unchecked errors (G104), and the files that we open are named by
	// the operator (G304).
	must(gosec.Analyzer.Flags.Set("exclude", "G101,G104,G304"))
	cmd.ParseFlags(os.Args[1:])
	cmd.AddAnalyzers(simple.Analyzers...)
	cmd.AddAnalyzers(staticcheck.Analyzers...)
	cmd.AddAnalyzers(stylecheck.Analyzers...)
	cmd.AddAnalyzers(unused.Analyzer)
	cmd.AddBareAnalyzers(vet.Suite...)
	// Tests hold made-up secrets, open test servers and run programs; what they read off a raw connection ends with it.
	cmd.AddBareAnalyzers(outsideTests(bodyclose.Analyzer), outsideTests(gosec.Analyzer))
	cmd.AddBareAnalyzers(errcheck.Analyzer, errorlint.NewAnalyzer(), ineffassign.Analyzer, commented)
	cmd.Run()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// outsideTests is the analyzer without its findings in test files. They are found again by the name of the analyzer, not of one of its rules.
func outsideTests(of *analysis.Analyzer) *analysis.Analyzer {
	limited := *of
	limited.Run = func(pass *analysis.Pass) (any, error) {
		filtered := *pass
		filtered.Report = func(found analysis.Diagnostic) {
			if !strings.HasSuffix(pass.Fset.Position(found.Pos).Filename, "_test.go") {
				found.Category = ""
				pass.Report(found)
			}
		}
		return of.Run(&filtered)
	}
	return &limited
}

// commented runs the rules of revive that look at doc comments, names and the flow around errors.
var commented = &analysis.Analyzer{
	Name: "revive",
	Doc:  "comments of what is exported, names, and the flow around errors",
	Run: func(pass *analysis.Pass) (any, error) {
		var names []string
		for _, file := range pass.Files {
			names = append(names, pass.Fset.Position(file.FileStart).Filename)
		}
		exported := new(rule.ExportedRule)
		if err := exported.Configure(revive.Arguments{"sayRepetitiveInsteadOfStutters"}); err != nil {
			return nil, err
		}
		linter := revive.New(os.ReadFile, 0)
		failures, err := linter.Lint([][]string{names}, []revive.Rule{
			exported, new(rule.IndentErrorFlowRule), new(rule.PackageCommentsRule), new(rule.ReceiverNamingRule), new(rule.VarNamingRule),
		}, revive.Config{Confidence: 0.8})
		if err != nil {
			return nil, err
		}
		for failure := range failures {
			if failure.IsInternal() {
				return nil, errors.New(failure.Failure)
			}
			file := pass.Files[slices.Index(names, failure.Filename())]
			pass.Report(analysis.Diagnostic{Pos: file.FileStart + token.Pos(failure.Position.Start.Offset), Message: failure.Failure})
		}
		return nil, nil
	},
}
