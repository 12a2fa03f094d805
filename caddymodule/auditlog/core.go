package auditlog

import (
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// loggerName is the name of the logger whose lines are kept.
const loggerName = "oauth.audit"

// Kept is an option for a logger of the `oauth` app: its audit lines at level info and above go to l as well, whatever level and filter the
// log of the configuration has.
func (l *Log) Kept() zap.Option {
	return zap.WrapCore(func(usual zapcore.Core) zapcore.Core { return zapcore.NewTee(usual, &core{log: l}) })
}

// core takes audit lines. It never fails and never waits.
type core struct {
	log  *Log
	with []zapcore.Field
}

// Enabled reports whether lines of the level are kept.
func (c *core) Enabled(level zapcore.Level) bool { return level >= zapcore.InfoLevel && c.log.isOn() }

// With adds fields to all lines.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.log, append(slices.Clip(c.with), fields...)}
}

// Check takes the entries of the audit log.
func (c *core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.LoggerName == loggerName && c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write queues the line.
func (c *core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	c.log.add(eventOf(entry, append(slices.Clip(c.with), fields...)))
	return nil
}

// Sync does nothing: Log.Close writes what waits.
func (c *core) Sync() error { return nil }
