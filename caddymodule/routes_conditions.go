package caddymodule

import (
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// stage says how far a request may have been changed when something was asked of it. What was asked at two stages can be
// compared only when nothing has changed the request in between.
type stage struct {
	url, rest int // another number whenever a handler may have changed the URL or the method, or anything else
	// passed counts the gates on the way: each takes headers and parts of the query away, and knows who is calling.
	passed int
	// stripped is what was taken from the front of the path by then, and known while nothing else was done to it.
	stripped string
	known    bool
}

// sameFor reports whether a matcher sees the same at both stages.
func (s stage) sameFor(matcher any, other stage) bool {
	switch matcher.(type) {
	case *caddyhttp.MatchPath, *caddyhttp.MatchPathRE, *caddyhttp.MatchMethod:
		return s.url == other.url
	case *caddyhttp.MatchHost, *caddyhttp.MatchProtocol, *caddyhttp.MatchRemoteIP, *caddyhttp.MatchClientIP:
		return s.url == other.url && s.rest == other.rest
	}
	// The gate that is asked about may be in between, for it was passed then; a second one could make a request match that
	// has gone past the first.
	return s.url == other.url && s.rest == other.rest && max(s.passed, other.passed)-min(s.passed, other.passed) <= 1
}

// condition is what a route asks of a request before it runs.
type condition struct {
	stage
	id   int
	sets caddyhttp.MatcherSets // one of them must match; none: every request does
	// group makes routes exclusive: of those in one group, a request runs the first that matches.
	group string
	// rivals: an earlier route of the group may have run in this one's place.
	rivals bool
	// opaque: what is asked is not of the request, so nobody can tell whether it holds.
	opaque bool
}

// fact is a matcher that has matched.
type fact struct {
	stage
	matcher any
}

func (c *condition) facts(set int) []fact {
	facts := make([]fact, len(c.sets[set]))
	for i, matcher := range c.sets[set] {
		facts[i] = fact{c.stage, matcher}
	}
	return facts
}

// viewsOf lists ways to look at what holds of a request that has met all the conditions. Each view is a list of
// alternatives of which at least one holds: the first has one alternative, which holds for certain, and every condition
// with several sets of matchers gives another view.
func viewsOf(conditions []condition) [][][]fact {
	var certain []fact
	for i := range conditions {
		if c := &conditions[i]; len(c.sets) == 1 && !c.opaque {
			certain = append(certain, c.facts(0)...)
		}
	}
	views := [][][]fact{{certain}}
	for i := range conditions {
		c := &conditions[i]
		if len(c.sets) < 2 || c.opaque {
			continue
		}
		var alternatives [][]fact
		for set := range c.sets {
			alternatives = append(alternatives, append(slices.Clip(certain), c.facts(set)...))
		}
		views = append(views, alternatives)
	}
	return views
}

// impliedBy reports whether every request that has met all the others has met this one. No is also said in doubt.
func (c *condition) impliedBy(others []condition) bool {
	if slices.ContainsFunc(others, func(o condition) bool { return o.id == c.id }) {
		return true
	}
	if c.opaque || c.rivals {
		return false
	}
	return len(c.sets) == 0 || holdsInAView(others, func(facts []fact) bool {
		return slices.ContainsFunc(c.sets, func(set caddyhttp.MatcherSet) bool { return c.setFollows(set, facts) })
	})
}

// excludedBy reports whether no request that has met all the others can have met this one. No is also said in doubt.
func (c *condition) excludedBy(others []condition) bool {
	for _, o := range others {
		if o.id == c.id {
			return false
		}
		if o.group != "" && o.group == c.group {
			return true
		}
	}
	if c.opaque || len(c.sets) == 0 {
		return false
	}
	for _, set := range c.sets {
		if !holdsInAView(others, func(facts []fact) bool { return c.setContradicts(set, facts) }) {
			return false
		}
	}
	return true
}

// holdsInAView reports whether there is a view of the conditions with nothing but alternatives of which something holds.
func holdsInAView(conditions []condition, holds func([]fact) bool) bool {
	return slices.ContainsFunc(viewsOf(conditions), func(alternatives [][]fact) bool {
		return !slices.ContainsFunc(alternatives, func(facts []fact) bool { return !holds(facts) })
	})
}

func (c *condition) setFollows(set caddyhttp.MatcherSet, facts []fact) bool {
	return !slices.ContainsFunc(set, func(matcher any) bool {
		return !slices.ContainsFunc(facts, func(f fact) bool { return c.sameFor(matcher, f.stage) && follows(f.matcher, matcher) })
	})
}

func (c *condition) setContradicts(set caddyhttp.MatcherSet, facts []fact) bool {
	return slices.ContainsFunc(set, func(matcher any) bool {
		return slices.ContainsFunc(facts, func(f fact) bool { return c.sameFor(matcher, f.stage) && contradict(f.matcher, matcher) })
	})
}
