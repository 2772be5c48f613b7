package jsonview

import (
	"fmt"

	"hotpath/internal/format"
)

// scanner checks JSON that nobody has checked before.
type scanner struct{ data []byte }

func (s scanner) spaces(i int) int { return spaces(s.data, i) }

// SyntaxError says where a document ends to be JSON. It wraps
// format.ErrInvalid.
type SyntaxError struct {
	Offset      int    // of the byte that was not expected
	Want, Found string // for people
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("byte %d: expected %s, found %s: %v", e.Offset, e.Want, e.Found, format.ErrInvalid)
}

func (e *SyntaxError) Unwrap() error { return format.ErrInvalid }

// fault says what was expected at byte i.
func (s scanner) fault(i int, want string) error {
	found := "the end"
	if i < len(s.data) {
		found = fmt.Sprintf("%q", s.data[i:min(i+12, len(s.data))])
	}
	return &SyntaxError{i, want, found}
}

func (s scanner) at(i int) byte {
	if i < len(s.data) {
		return s.data[i]
	}
	return 0 // stands nowhere in JSON
}

// value checks the value at i and returns its end.
func (s scanner) value(i, depth int) (int, error) {
	switch c := s.at(i); {
	case c == '"':
		return s.text(i)
	case c == '{' || c == '[':
		if depth == MaxDepth {
			return 0, fmt.Errorf("byte %d: nested more than %d deep: %w", i, MaxDepth, format.ErrInvalid)
		}
		if c == '{' {
			return s.object(i, depth+1)
		}
		return s.array(i, depth+1)
	case c == '-' || c >= '0' && c <= '9':
		return s.number(i)
	case c == 't':
		return s.word(i, "true")
	case c == 'f':
		return s.word(i, "false")
	case c == 'n':
		return s.word(i, "null")
	}
	return 0, s.fault(i, "a JSON value")
}

func (s scanner) word(i int, word string) (int, error) {
	end := i + len(word)
	if end > len(s.data) || string(s.data[i:end]) != word {
		return 0, s.fault(i, "a JSON value") // it may be any word that begins alike
	}
	return end, nil
}

func (s scanner) object(i, depth int) (int, error) {
	i = s.spaces(i + 1)
	if s.at(i) == '}' {
		return i + 1, nil
	}
	for {
		if s.at(i) != '"' {
			return 0, s.fault(i, "a key in quotes")
		}
		end, err := s.text(i)
		if err != nil {
			return 0, err
		}
		if i = s.spaces(end); s.at(i) != ':' {
			return 0, s.fault(i, "a colon")
		}
		if end, err = s.value(s.spaces(i+1), depth); err != nil {
			return 0, err
		}
		switch i = s.spaces(end); s.at(i) {
		case '}':
			return i + 1, nil
		case ',':
			i = s.spaces(i + 1)
		default:
			return 0, s.fault(i, "a comma or the end of the object")
		}
	}
}

func (s scanner) array(i, depth int) (int, error) {
	i = s.spaces(i + 1)
	if s.at(i) == ']' {
		return i + 1, nil
	}
	for {
		end, err := s.value(i, depth)
		if err != nil {
			return 0, err
		}
		switch i = s.spaces(end); s.at(i) {
		case ']':
			return i + 1, nil
		case ',':
			i = s.spaces(i + 1)
		default:
			return 0, s.fault(i, "a comma or the end of the array")
		}
	}
}

// text checks a string. Its UTF-8 is not checked: what is broken is mended when
// it is decoded.
func (s scanner) text(i int) (int, error) {
	for i++; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			return i + 1, nil
		case c < ' ':
			return 0, s.fault(i, "no control character in a string")
		case c == '\\':
			i++
			switch s.at(i) {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; !isHex(s.at(i)) {
						return 0, s.fault(i, "four hexadecimal digits")
					}
				}
			default:
				return 0, s.fault(i, "an escape that JSON has")
			}
		}
	}
	return 0, s.fault(i, "the end of the string")
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func (s scanner) number(i int) (int, error) {
	if s.at(i) == '-' {
		i++
	}
	if s.at(i) == '0' {
		i++
	} else {
		end := s.digits(i)
		if end == i {
			return 0, s.fault(i, "a digit")
		}
		i = end
	}
	if s.at(i) == '.' {
		end := s.digits(i + 1)
		if end == i+1 {
			return 0, s.fault(end, "a digit")
		}
		i = end
	}
	if c := s.at(i); c == 'e' || c == 'E' {
		if i++; s.at(i) == '+' || s.at(i) == '-' {
			i++
		}
		end := s.digits(i)
		if end == i {
			return 0, s.fault(i, "a digit")
		}
		i = end
	}
	return i, nil
}

func (s scanner) digits(i int) int {
	for c := s.at(i); c >= '0' && c <= '9'; c = s.at(i) {
		i++
	}
	return i
}
