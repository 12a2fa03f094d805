package caddymodule

import (
	"context"
	"runtime/debug"

	"go.uber.org/zap"
)

// modulePath is the path of this module.
const modulePath = "github.com/gatehouse-auth/gatehouse"

// version returns the version of this module in the running program, or "devel" if the build does not say.
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

// about returns the fields of the line that is logged at a start.
func (a *App) about() []zap.Field {
	fields := []zap.Field{zap.Int("guarded_routes", a.guarded.found.Load().Gates), zap.String("version", version())}
	s := &a.service.settings
	if !s.KeepsState() {
		return append(fields, zap.Int("trusted_issuers", len(a.others.trusted)))
	}
	if !s.Issues() {
		return append(fields, zap.Int("providers", len(a.others.providers)), zap.String("store", s.Node.Store))
	}
	return append(fields, zap.String("issuer", s.Issuer.URL), zap.String("store", s.Node.Store), zap.String("algorithm", string(s.Node.Algorithm)))
}

// announce logs one line about what serves. It counts the declared clients and, unless the store does not answer within a second, the
// stored ones.
func (s *starting) announce() {
	logger, settings := s.service.logger, &s.service.settings
	if !settings.KeepsState() {
		logger.Info("serving as a gate for tokens of others", s.about...)
		return
	}
	if !settings.Issues() {
		logger.Info("serving sessions of browsers that sign in at providers", s.about...)
		return
	}
	clients := int64(len(settings.Issuer.Declared.Clients()))
	ctx, cancel := context.WithTimeout(s.service.life.ctx, glanceTimeout)
	defer cancel()
	if stored, err := s.service.node.CountRows(ctx); err == nil {
		clients += stored["clients"]
	}
	if s.service.life.hasEnded() {
		return // another configuration has taken its place
	}
	logger.Info("serving", append(s.about, zap.Int64("clients", clients))...)
}
