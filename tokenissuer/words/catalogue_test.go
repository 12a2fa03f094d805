package words

import (
	"testing"
	"time"
)

// open returns the catalogues that we ship.
func open(t testing.TB) *Catalogues {
	t.Helper()
	c, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// catalogue returns a catalogue that we ship.
func catalogue(t testing.TB, lang Language) Catalogue {
	t.Helper()
	found, texts := open(t).In(lang)
	if found != lang {
		t.Fatalf("there is no catalogue for %s", lang)
	}
	return texts
}

func TestRetryIsNeverTooEarly(t *testing.T) {
	for _, test := range []struct {
		after           time.Duration
		english, german string
	}{
		{-time.Hour, "in a moment", "gleich"},
		{0, "in a moment", "gleich"},
		{4 * time.Second, "in a moment", "gleich"},
		{4*time.Second + 1, "in 5 seconds", "in 5 Sekunden"},
		{59 * time.Second, "in 59 seconds", "in 59 Sekunden"},
		{59*time.Second + 1, "in 1 minute", "in einer Minute"},
		{time.Minute, "in 1 minute", "in einer Minute"},
		{time.Minute + 1, "in 2 minutes", "in 2 Minuten"},
		{2 * time.Minute, "in 2 minutes", "in 2 Minuten"},
		{59 * time.Minute, "in 59 minutes", "in 59 Minuten"},
		{59*time.Minute + 1, "in 1 hour", "in einer Stunde"},
		{time.Hour, "in 1 hour", "in einer Stunde"},
		{time.Hour + 1, "in 2 hours", "in 2 Stunden"},
		{1<<63 - 1, "in 2562048 hours", "in 2562048 Stunden"},
	} {
		t.Run(test.after.String(), func(t *testing.T) {
			if got, want := catalogue(t, "en").Retry(test.after), "Try again "+test.english+"."; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if got, want := catalogue(t, "de").Retry(test.after), "Versuchen Sie es "+test.german+" noch einmal."; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestDatesAreInUTC: dates are in UTC, whatever the time zone of a value.
func TestDatesAreInUTC(t *testing.T) {
	at := time.Date(2026, time.December, 31, 23, 30, 0, 0, time.FixedZone("west", -3600))
	for lang, want := range map[Language]string{
		"en": "1 January 2027 at 00:30 UTC", "de": "1. Januar 2027 um 00:30 Uhr (UTC)", "fr": "1er janvier 2027 à 00:30 UTC",
		"es": "1 de enero de 2027 a las 00:30 UTC",
	} {
		got := catalogue(t, lang).Moment(at)
		if got.Words != want || got.ISO != "2027-01-01T00:30:00Z" {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	if got := catalogue(t, "fr").Day(at.AddDate(0, 0, 1)); got.Words != "2 janvier 2027" {
		t.Errorf("%q", got.Words)
	}
}
