// Package logfilter is `oauth` of Caddy's `format filter`: it removes OAuth credentials from access logs.
package logfilter

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func init() { caddy.RegisterModule(Filter{}) }

// Filter removes OAuth credentials from a field of Caddy's logs: codes, tokens, secrets, assertions, passwords and
// cookies. It works on strings, as request>uri, on arrays of them, on whole header objects, as request>headers, and on
// the whole request. Everything else stays readable.
type Filter struct{}

// CaddyModule returns the module's id.
func (Filter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.encoders.filter.oauth", New: func() caddy.Module { return new(Filter) }}
}

// UnmarshalCaddyfile reads
//
//	oauth
func (*Filter) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the filter
	if d.NextArg() {
		return d.ArgErr()
	}
	if d.NextBlock(0) {
		return d.Errf("there is nothing to set here: %s", d.Val())
	}
	return nil
}

// Filter returns the field in, without credentials.
func (Filter) Filter(in zapcore.Field) zapcore.Field {
	return zap.Inline(zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
		in.AddTo(redactingEncoder{enc})
		return nil
	}))
}

// redactingEncoder forwards to another encoder and removes credentials from strings. A field's name matters: it may be
// that of a header.
type redactingEncoder struct{ zapcore.ObjectEncoder }

func (e redactingEncoder) AddString(key, value string) {
	e.ObjectEncoder.AddString(key, redactField(key, value))
}

func (e redactingEncoder) AddByteString(key string, value []byte) {
	e.ObjectEncoder.AddByteString(key, []byte(redactField(key, string(value))))
}

func (e redactingEncoder) AddBinary(key string, value []byte) {
	e.ObjectEncoder.AddBinary(key, []byte(redactField(key, string(value))))
}

func (e redactingEncoder) AddArray(key string, value zapcore.ArrayMarshaler) error {
	return e.ObjectEncoder.AddArray(key, redactedArray{key, value})
}

func (e redactingEncoder) AddObject(key string, value zapcore.ObjectMarshaler) error {
	return e.ObjectEncoder.AddObject(key, redactedObject{value})
}

// AddReflected writes a placeholder, because the encoding of the value is unknown.
func (e redactingEncoder) AddReflected(key string, value any) error {
	if value == nil {
		return e.ObjectEncoder.AddReflected(key, nil)
	}
	e.ObjectEncoder.AddString(key, redacted)
	return nil
}

// redactedObject removes credentials from an object.
type redactedObject struct{ zapcore.ObjectMarshaler }

func (o redactedObject) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	return o.ObjectMarshaler.MarshalLogObject(redactingEncoder{enc})
}

// redactedArray removes credentials from an array. Its elements are treated like values of the field key.
type redactedArray struct {
	key   string
	array zapcore.ArrayMarshaler
}

func (a redactedArray) MarshalLogArray(enc zapcore.ArrayEncoder) error {
	return a.array.MarshalLogArray(redactingArrayEncoder{enc, a.key})
}

// redactingArrayEncoder is a redactingEncoder for the elements of an array.
type redactingArrayEncoder struct {
	zapcore.ArrayEncoder
	key string
}

func (e redactingArrayEncoder) AppendString(value string) {
	e.ArrayEncoder.AppendString(redactField(e.key, value))
}

func (e redactingArrayEncoder) AppendByteString(value []byte) {
	e.ArrayEncoder.AppendByteString([]byte(redactField(e.key, string(value))))
}

func (e redactingArrayEncoder) AppendArray(value zapcore.ArrayMarshaler) error {
	return e.ArrayEncoder.AppendArray(redactedArray{e.key, value})
}

func (e redactingArrayEncoder) AppendObject(value zapcore.ObjectMarshaler) error {
	return e.ArrayEncoder.AppendObject(redactedObject{value})
}

func (e redactingArrayEncoder) AppendReflected(value any) error {
	if value == nil {
		return e.ArrayEncoder.AppendReflected(nil)
	}
	e.ArrayEncoder.AppendString(redacted)
	return nil
}

// Interface guards.
var (
	_ logging.LogFieldFilter = (*Filter)(nil)
	_ caddyfile.Unmarshaler  = (*Filter)(nil)
)
