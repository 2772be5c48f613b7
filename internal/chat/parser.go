package chat

import (
	"fmt"
	"slices"
)

// parser reads tokens into statements.
type parser struct {
	name   string
	tokens []token
	at     int
	depth  int    // of blocks and expressions
	loops  int    // around here, for break and continue
	macro  *macro // around here
}

// parse reads a whole template.
func parse(name, source string) ([]stmt, error) {
	tokens, err := lex(name, source)
	if err != nil {
		return nil, err
	}
	p := &parser{name: name, tokens: tokens}
	body, _, err := p.block()
	return body, err
}

func (p *parser) cur() token { return p.tokens[p.at] }

// next gives the current token and moves on; the last one stays.
func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokEnd {
		p.at++
	}
	return t
}

func (p *parser) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s: line %d: %s", p.name, line, fmt.Sprintf(format, args...))
}

func (p *parser) isOp(op string) bool { return p.cur().kind == tokOp && p.cur().text == op }

func (p *parser) isName(name string) bool { return p.cur().kind == tokName && p.cur().text == name }

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.at++
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expectOp(op string) error {
	if !p.skipOp(op) {
		return p.errorf(p.cur().line, "%v, expected %q", p.cur(), op)
	}
	return nil
}

func (p *parser) expectKind(kind tokenKind, what string) (token, error) {
	if p.cur().kind != kind {
		return token{}, p.errorf(p.cur().line, "%v, expected %s", p.cur(), what)
	}
	return p.next(), nil
}

// enter goes one block or expression deeper; leave comes back.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxNesting {
		return p.errorf(p.cur().line, "blocks and expressions nested more than %d deep", maxNesting)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// block reads statements up to a tag with one of the names, whose token it
// gives; without names, up to the end.
func (p *parser) block(ends ...string) (body []stmt, end token, err error) {
	if err := p.enter(); err != nil {
		return nil, end, err
	}
	defer p.leave()
	for {
		t := p.next()
		switch t.kind {
		case tokEnd:
			if len(ends) > 0 {
				return nil, t, p.errorf(t.line, "the template ends, expected {%% %s %%}", ends[len(ends)-1])
			}
			return body, t, nil
		case tokText:
			body = append(body, &textStmt{t.text})
		case tokPrint:
			x, err := p.tuple(true)
			if err != nil {
				return nil, t, err
			}
			if _, err := p.expectKind(tokPrintEnd, `"}}"`); err != nil {
				return nil, t, err
			}
			body = append(body, &printStmt{t.line, x})
		case tokTag:
			name, err := p.expectKind(tokName, "the name of a tag")
			if err != nil {
				return nil, t, err
			}
			if slices.Contains(ends, name.text) {
				return body, name, nil
			}
			read, ok := tags[name.text]
			if !ok {
				return nil, t, p.errorf(name.line, "tag %q: chat templates have no such tag here", short(name.text))
			}
			st, err := read(p, name)
			if err != nil {
				return nil, t, err
			}
			if _, err := p.expectKind(tokTagEnd, `"%}"`); err != nil {
				return nil, t, err
			}
			body = append(body, st)
		default:
			return nil, t, p.errorf(t.line, "unexpected %v", t)
		}
	}
}

// body reads a tag's end and then a block.
func (p *parser) body(ends ...string) ([]stmt, token, error) {
	p.skipOp(":")
	if _, err := p.expectKind(tokTagEnd, `"%}"`); err != nil {
		return nil, token{}, err
	}
	return p.block(ends...)
}

// apart reads a body from which break and continue do not reach a loop around.
func (p *parser) apart(end string) ([]stmt, error) {
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	body, _, err := p.body(end)
	return body, err
}

// tags are the statements by name; it is filled in init because they refer
// back to it.
var tags map[string]func(*parser, token) (stmt, error)

func init() {
	tags = map[string]func(*parser, token) (stmt, error){
		"if": (*parser).ifTag, "for": (*parser).forTag, "set": (*parser).setTag,
		"macro": (*parser).macroTag, "call": (*parser).callTag, "filter": (*parser).filterTag,
		"with": (*parser).withTag, "generation": (*parser).generationTag,
		"break": (*parser).loopTag, "continue": (*parser).loopTag,
	}
}

func (p *parser) ifTag(token) (stmt, error) {
	st := &ifStmt{}
	for {
		test, err := p.tuple(false)
		if err != nil {
			return nil, err
		}
		body, end, err := p.body("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		st.tests, st.bodies = append(st.tests, test), append(st.bodies, body)
		if end.text == "else" {
			st.other, _, err = p.body("endif")
			return st, err
		}
		if end.text == "endif" {
			return st, nil
		}
	}
}

func (p *parser) forTag(at token) (stmt, error) {
	st := &forStmt{line: at.line}
	var err error
	if st.target, err = p.target(false); err != nil {
		return nil, err
	}
	if assigns(st.target, "loop") {
		return nil, p.errorf(at.line, "a for loop cannot assign to loop")
	}
	if !p.skipName("in") {
		return nil, p.errorf(p.cur().line, "%v, expected \"in\"", p.cur())
	}
	if st.over, err = p.tuple(false); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if st.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.isName("recursive") {
		return nil, p.errorf(at.line, "recursive loops are not supported")
	}
	p.loops++
	body, end, err := p.body("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	st.body = body
	if end.text == "else" {
		st.other, _, err = p.body("endfor")
	}
	return st, err
}

func (p *parser) loopTag(at token) (stmt, error) {
	if p.loops == 0 {
		return nil, p.errorf(at.line, "%s outside of a loop", at.text)
	}
	if at.text == "break" {
		return &jumpStmt{leaveLoop}, nil
	}
	return &jumpStmt{nextItem}, nil
}

func (p *parser) setTag(at token) (stmt, error) {
	to, err := p.target(true)
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		x, err := p.tuple(true)
		return &setStmt{at.line, to, x}, err
	}
	st := &captureStmt{line: at.line, to: to}
	if st.filters, err = p.filters(); err != nil {
		return nil, err
	}
	st.body, _, err = p.body("endset")
	return st, err
}

func (p *parser) filterTag(at token) (stmt, error) {
	first, err := p.filter()
	if err != nil {
		return nil, err
	}
	more, err := p.filters()
	if err != nil {
		return nil, err
	}
	st := &captureStmt{line: at.line, filters: append([]link{first}, more...)}
	st.body, _, err = p.body("endfilter")
	return st, err
}

func (p *parser) withTag(at token) (stmt, error) {
	st := &withStmt{line: at.line}
	for p.cur().kind != tokTagEnd && !p.isOp(":") {
		if len(st.targets) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		to, err := p.target(false)
		if err != nil {
			return nil, err
		}
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		st.targets, st.values = append(st.targets, to), append(st.values, x)
	}
	var err error
	st.body, _, err = p.body("endwith")
	return st, err
}

// generationTag marks what the model itself writes; for rendering it is a
// block with variables of its own.
func (p *parser) generationTag(at token) (stmt, error) {
	body, err := p.apart("endgeneration")
	return &withStmt{line: at.line, body: body}, err
}
