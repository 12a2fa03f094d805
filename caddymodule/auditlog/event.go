package auditlog

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Bounds of what is kept of a line, which holds texts of strangers: paths, addresses that were typed in, errors of other servers.
const (
	// maxText bounds each text in bytes, and maxShort does if the line is longer than maxLine even so. Lists have at most maxList items.
	maxText, maxShort = 1024, 64
	maxList           = 64
	maxLine           = 8 << 10
)

// eventOf returns the event of a line, without its key.
func eventOf(entry zapcore.Entry, fields []zapcore.Field) store.AuditEvent {
	line := zapcore.NewMapObjectEncoder()
	line.AddString("level", entry.Level.String())
	line.AddString("msg", entry.Message)
	for _, field := range fields {
		addTo(line, field)
	}
	column := func(name string) string {
		text, _ := line.Fields[name].(string)
		return Bounded(text)
	}
	user := column("subject")
	if _, ofOthers := line.Fields["trust"]; ofOthers {
		user = "" // the ids of another issuer's people may be those of ours
	}
	return store.AuditEvent{
		Event: Bounded(entry.Message), UserID: user, ClientID: column("client_id"), Reason: column("reason"), Host: column("host"),
		Data: encoded(line.Fields),
	}
}

// addTo adds a field. One that panics, as a method of a nil pointer does, is left out: the line is more than the field.
func addTo(line *zapcore.MapObjectEncoder, field zapcore.Field) {
	defer func() {
		if recover() != nil {
			delete(line.Fields, field.Key)
		}
	}()
	field.AddTo(line)
}

// Bounded returns a text as it is kept in a column: its first 1024 bytes at most.
func Bounded(text string) string { return cut(text, maxText) }

// cut shortens a text to most bytes, at the border of a letter.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// encoded returns the line as a JSON object of maxLine bytes at most.
func encoded(line map[string]any) string {
	for _, most := range []int{maxText, maxShort} {
		text, err := json.Marshal(bounded(line, most), json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		if err == nil && len(text) <= maxLine {
			return string(text)
		}
		line["truncated"] = true
	}
	short := map[string]any{"truncated": true}
	for _, name := range []string{"level", "msg", "trust", "subject", "client_id", "reason", "host", "address", "by"} {
		if text, ok := line[name].(string); ok {
			short[name] = cut(text, maxShort)
		}
	}
	text, _ := json.Marshal(short, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)) // texts are always encoded
	return string(text)
}

// bounded returns a value of a line with bounded texts and lists.
func bounded(value any, most int) any {
	switch v := value.(type) {
	case string:
		return cut(v, most)
	case []any:
		list := make([]any, 0, min(len(v), maxList))
		for _, item := range v[:min(len(v), maxList)] {
			list = append(list, bounded(item, most))
		}
		return list
	case map[string]any:
		members := make(map[string]any, len(v))
		for name, item := range v {
			members[name] = bounded(item, most)
		}
		return members
	case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, time.Time:
		return v
	case fmt.Stringer: // durations
		return cut(v.String(), most)
	}
	return cut(fmt.Sprint(value), most)
}
