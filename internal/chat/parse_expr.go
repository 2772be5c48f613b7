package chat

import (
	"slices"
	"strings"
)

// constants are names with a fixed value.
var constants = map[string]value{
	"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil,
}

// keywords are names that cannot be variables.
var keywords = map[string]bool{
	"and": true, "or": true, "not": true, "in": true, "is": true, "if": true, "else": true, "elif": true,
}

// tuple reads an expression, or several with commas between them.
func (p *parser) tuple(conditional bool) (expr, error) {
	read := p.expression
	if !conditional {
		read = p.or
	}
	first, err := read()
	if err != nil || !p.isOp(",") {
		return first, err
	}
	items := []expr{first}
	for p.skipOp(",") {
		if p.tupleEnd() {
			break
		}
		x, err := read()
		if err != nil {
			return nil, err
		}
		items = append(items, x)
	}
	return &listExpr{items, true}, nil
}

func (p *parser) tupleEnd() bool {
	k := p.cur().kind
	return k == tokPrintEnd || k == tokTagEnd || p.isOp(")")
}

// expression reads a whole expression. Every nesting passes through here or
// through unary and not, so depth is counted there.
func (p *parser) expression() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	x, err := p.or()
	if err != nil || !p.skipName("if") {
		return x, err
	}
	c := &condExpr{yes: x}
	if c.test, err = p.or(); err != nil {
		return nil, err
	}
	if p.skipName("else") {
		c.no, err = p.expression()
	}
	return c, err
}

func (p *parser) or() (expr, error) { return p.logic("or", p.and) }

func (p *parser) and() (expr, error) { return p.logic("and", p.not) }

func (p *parser) logic(word string, read func() (expr, error)) (expr, error) {
	first, err := read()
	if err != nil || !p.isName(word) {
		return first, err
	}
	x := &logicExpr{and: word == "and", items: []expr{first}}
	for p.skipName(word) {
		item, err := read()
		if err != nil {
			return nil, err
		}
		x.items = append(x.items, item)
	}
	return x, nil
}

func (p *parser) not() (expr, error) {
	if !p.skipName("not") {
		return p.compare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	x, err := p.not()
	return &notExpr{x}, err
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) compare() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	var rest []operand
	for {
		t := p.cur()
		op := ""
		switch {
		case t.kind == tokOp && slices.Contains(comparisons, t.text):
			op = t.text
			p.at++
		case p.skipName("in"):
			op = "in"
		case p.isName("not") && p.tokens[p.at+1].kind == tokName && p.tokens[p.at+1].text == "in":
			op = "not in"
			p.at += 2
		}
		if op == "" {
			break
		}
		x, err := p.sum()
		if err != nil {
			return nil, err
		}
		rest = append(rest, operand{op, t.line, x})
	}
	if rest == nil {
		return first, nil
	}
	return &compareExpr{first, rest}, nil
}

// The operators of arithmetic, from the weakest to the strongest. Chains of
// one level are flat, so that a long one needs no deep stack.
func (p *parser) sum() (expr, error) { return p.arithmetic([]string{"+", "-"}, p.concat) }

func (p *parser) product() (expr, error) {
	return p.arithmetic([]string{"*", "/", "//", "%"}, p.power)
}

func (p *parser) power() (expr, error) {
	return p.arithmetic([]string{"**"}, func() (expr, error) { return p.unary(true) })
}

func (p *parser) arithmetic(ops []string, read func() (expr, error)) (expr, error) {
	first, err := read()
	if err != nil {
		return nil, err
	}
	var rest []operand
	for p.cur().kind == tokOp && slices.Contains(ops, p.cur().text) {
		t := p.next()
		x, err := read()
		if err != nil {
			return nil, err
		}
		rest = append(rest, operand{t.text, t.line, x})
	}
	if rest == nil {
		return first, nil
	}
	return &arithExpr{first, rest}, nil
}

func (p *parser) concat() (expr, error) {
	first, err := p.product()
	if err != nil || !p.isOp("~") {
		return first, err
	}
	x := &concatExpr{items: []expr{first}}
	for p.skipOp("~") {
		item, err := p.product()
		if err != nil {
			return nil, err
		}
		x.items = append(x.items, item)
	}
	return x, nil
}

// unary reads a sign, or a primary expression with what follows it.
func (p *parser) unary(filters bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var x expr
	var err error
	if t := p.cur(); p.skipOp("-") || p.skipOp("+") {
		if x, err = p.unary(false); err == nil {
			x = &signExpr{t.line, t.text == "-", x}
		}
	} else {
		x, err = p.primary()
	}
	if err != nil {
		return nil, err
	}
	links, err := p.postfix()
	if err != nil {
		return nil, err
	}
	for filters {
		var more []link
		if p.isOp("|") {
			more, err = p.filters()
		} else if p.isName("is") {
			more, err = p.test()
		} else if p.isOp("(") {
			more, err = p.postfix()
		} else {
			break
		}
		if err != nil {
			return nil, err
		}
		links = append(links, more...)
	}
	if links == nil {
		return x, nil
	}
	return &chain{x, links}, nil
}

func (p *parser) primary() (expr, error) {
	t := p.cur()
	switch t.kind {
	case tokName:
		if keywords[t.text] {
			return nil, p.errorf(t.line, "unexpected %q, expected an expression", t.text)
		}
		p.at++
		if v, ok := constants[t.text]; ok {
			return &constExpr{v}, nil
		}
		if p.macro != nil {
			p.macro.refersTo(t.text)
		}
		return &nameExpr{t.line, t.text}, nil
	case tokString:
		var s strings.Builder
		for p.cur().kind == tokString {
			s.WriteString(p.next().text)
		}
		return &constExpr{s.String()}, nil
	case tokInt, tokFloat:
		p.at++
		return &constExpr{t.num}, nil
	}
	switch {
	case p.skipOp("("):
		if p.skipOp(")") {
			return &listExpr{nil, true}, nil
		}
		x, err := p.tuple(true)
		if err != nil {
			return nil, err
		}
		return x, p.expectOp(")")
	case p.skipOp("["):
		items, err := p.items("]")
		return &listExpr{items, false}, err
	case p.skipOp("{"):
		return p.dict()
	}
	return nil, p.errorf(t.line, "%v, expected an expression", t)
}

// items reads expressions up to a closing bracket.
func (p *parser) items(end string) ([]expr, error) {
	var items []expr
	for !p.skipOp(end) {
		if len(items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.skipOp(end) {
				break
			}
		}
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, x)
	}
	return items, nil
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{line: p.cur().line}
	for !p.skipOp("}") {
		if len(d.keys) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.skipOp("}") {
				break
			}
		}
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expectOp(":"); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.vals = append(d.keys, key), append(d.vals, v)
	}
	return d, nil
}
