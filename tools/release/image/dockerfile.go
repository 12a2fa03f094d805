package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// stage is the last stage of a Dockerfile.
type stage struct {
	config v1.Config
	copies []copied
}

// copied is a COPY instruction.
type copied struct {
	from, to string // absolute, in the stage that builds and in the image
	uid, gid int
}

// parseDockerfile reads the last stage of a Dockerfile. It knows the instructions that ours needs, and refuses all others.
func parseDockerfile(text string, variables map[string]string) (*stage, error) {
	var s *stage
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		instruction, arguments, _ := strings.Cut(line, " ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case strings.HasSuffix(line, `\`):
			return nil, fmt.Errorf("%q: continued lines are not supported", line)
		case instruction == "FROM":
			s = &stage{config: v1.Config{Labels: map[string]string{}, Volumes: map[string]struct{}{}, ExposedPorts: map[string]struct{}{}}}
			if arguments != "scratch" {
				s = nil
			}
			continue
		case s == nil:
			continue // of a stage before the last one
		}
		if err := s.apply(instruction, strings.TrimSpace(arguments), variables); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	if s == nil {
		return nil, fmt.Errorf("the last stage is not FROM scratch")
	}
	return s, nil
}

// apply carries one instruction out.
func (s *stage) apply(instruction, arguments string, variables map[string]string) error {
	switch instruction {
	case "ARG":
		name, _, _ := strings.Cut(arguments, "=")
		if _, given := variables[name]; !given {
			return fmt.Errorf("there is no value for %s", name)
		}
	case "LABEL", "ENV":
		key, value, found := strings.Cut(arguments, "=")
		if !found || strings.ContainsAny(arguments, "\" '") {
			return fmt.Errorf("one pair without quotes is supported")
		}
		if name, isVariable := strings.CutPrefix(value, "$"); isVariable {
			value = variables[name]
		}
		if instruction == "ENV" {
			s.config.Env = append(s.config.Env, key+"="+value)
		} else {
			s.config.Labels[key] = value
		}
	case "COPY":
		return s.copy(strings.Fields(arguments))
	case "USER":
		s.config.User = arguments
	case "VOLUME":
		s.config.Volumes[arguments] = struct{}{}
	case "EXPOSE":
		for _, port := range strings.Fields(arguments) {
			if !strings.Contains(port, "/") {
				port += "/tcp"
			}
			s.config.ExposedPorts[port] = struct{}{}
		}
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(arguments), &s.config.Entrypoint)
	case "CMD":
		return json.Unmarshal([]byte(arguments), &s.config.Cmd)
	case "HEALTHCHECK":
		return s.healthcheck(arguments)
	default:
		return fmt.Errorf("the instruction is not supported")
	}
	return nil
}

func (s *stage) copy(words []string) error {
	c := copied{}
	var paths []string
	for _, word := range words {
		switch option, value, _ := strings.Cut(word, "="); {
		case option == "--from" && value == "build":
		case option == "--chown":
			if _, err := fmt.Sscanf(value, "%d:%d", &c.uid, &c.gid); err != nil {
				return fmt.Errorf("the owner: %w", err)
			}
		case strings.HasPrefix(word, "/") && strings.HasSuffix(word, "/"):
			paths = append(paths, word)
		default:
			return fmt.Errorf("%s is not supported", word)
		}
	}
	if len(paths) != 2 {
		return fmt.Errorf("two directories, absolute and with a slash at the end, are supported")
	}
	c.from, c.to = paths[0], paths[1]
	s.copies = append(s.copies, c)
	return nil
}

func (s *stage) healthcheck(arguments string) error {
	options, command, found := strings.Cut(arguments, "CMD ")
	if !found {
		return fmt.Errorf("there is no CMD")
	}
	h := &v1.HealthConfig{}
	for _, option := range strings.Fields(options) {
		name, value, _ := strings.Cut(option, "=")
		var err error
		switch name {
		case "--interval":
			h.Interval, err = time.ParseDuration(value)
		case "--timeout":
			h.Timeout, err = time.ParseDuration(value)
		case "--start-period":
			h.StartPeriod, err = time.ParseDuration(value)
		case "--retries":
			_, err = fmt.Sscan(value, &h.Retries)
		default:
			err = fmt.Errorf("%s is not supported", name)
		}
		if err != nil {
			return err
		}
	}
	var words []string
	if err := json.Unmarshal([]byte(command), &words); err != nil {
		return err
	}
	h.Test = append([]string{"CMD"}, words...)
	s.config.Healthcheck = h
	return nil
}
