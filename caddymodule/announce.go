package caddymodule

import (
	"context"
	"runtime/debug"

	"go.uber.org/zap"
)

// modulePath is where this module is known to Go.
const modulePath = "github.com/gatehouse-auth/gatehouse"

// version is the version of this module in the program that runs; "devel" when the build does not say.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == modulePath && module.Version != "" && module.Version != "(devel)" {
			return module.Version
		}
	}
	return "devel"
}

// about are the fields of the line about a start.
func (a *App) about() []zap.Field {
	fields := []zap.Field{zap.Int("guarded_routes", a.covered.Load().Gates), zap.String("version", version())}
	if !a.keepsState() {
		return append(fields, zap.Int("trusted_issuers", len(a.trusted)))
	}
	s := a.settings.Node
	if !a.issues() {
		return append(fields, zap.Int("providers", len(a.providers)), zap.String("store", s.Store))
	}
	return append(fields, zap.String("issuer", a.settings.URL), zap.String("store", s.Store), zap.String("algorithm", string(s.Algorithm)))
}

// announce logs one line about what serves. Clients are those of the configuration and, unless the store cannot be
// asked within a second, those in the store.
func (a *App) announce() {
	if !a.keepsState() {
		a.logger.Info("serving as a gate for tokens of others", a.about()...)
		return
	}
	if !a.issues() {
		a.logger.Info("serving sessions of browsers that sign in at providers", a.about()...)
		return
	}
	clients := int64(len(a.settings.Declared.Clients()))
	ctx, cancel := context.WithTimeout(a.life.ctx, glanceTimeout)
	defer cancel()
	if stored, err := a.node.CountRows(ctx); err == nil {
		clients += stored["clients"]
	}
	if a.life.hasEnded() {
		return // another configuration has taken its place
	}
	a.logger.Info("serving", append(a.about(), zap.Int64("clients", clients))...)
}
