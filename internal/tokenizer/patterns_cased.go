package tokenizer

// Expressions that tell capital letters from small ones: words of GPT-4o, Llama 4 and Mistral's Tekken.

// cutGPT4o cuts by gpt4oPattern.
func cutGPT4o(text []byte, p span, out []span) []span { return cutCased(text, p, out, 3, true) }

// cutTekken cuts by tekkenPattern.
func cutTekken(text []byte, p span, out []span) []span { return cutCased(text, p, out, 1, false) }

func cutCased(text []byte, p span, out []span, maxDigits int, short bool) []span {
	t := reader{text, p.end}
	for i := p.start; i < p.end; {
		end := t.casedWord(i)
		switch {
		case end == i:
			end = t.otherwise(i, maxDigits)
		case short:
			end += t.contraction(end, true)
		}
		out = append(out, span{i, end})
		i = end
	}
	return out
}

// casedWord is the end of [^\r\n\p{L}\p{N}]?U*W+ at i, or else of [^\r\n\p{L}\p{N}]?U+W*, or else i; U and W
// are classUpper and classLower.
func (t reader) casedWord(i int) int {
	c, n := t.at(i)
	begin := i
	if !c.is(classLetter|classNumber) && t.text[i] != '\r' && t.text[i] != '\n' {
		begin = i + n
		if end := t.upperThenLower(begin); end > begin {
			return end
		}
	}
	if end := t.upperThenLower(i); end > i {
		return end
	}
	// What U matches is followed by no W now.
	if end := t.runEnd(begin, classUpper, false); end > begin {
		return end
	}
	return t.runEnd(i, classUpper, false)
}

// upperThenLower is the end of U*W+ at i, or i. U gives back what W needs.
func (t reader) upperThenLower(i int) int {
	last, at := i, i // where the last character ends that is of both
	for {
		c, n := t.at(at)
		if n == 0 || !c.is(classUpper) {
			break
		}
		if at += n; c.is(classLower) {
			last = at
		}
	}
	if end := t.runEnd(at, classLower, false); end > at {
		return end
	}
	return last
}

// otherwise is the end of \p{N}{1,maxDigits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ at i.
func (t reader) otherwise(i, maxDigits int) int {
	c, n := t.at(i)
	if c.is(classNumber) {
		return t.digits(i+n, maxDigits)
	}
	mark := i
	if t.text[i] == ' ' {
		mark = i + 1
		c, n = t.at(mark)
	}
	if n > 0 && !c.is(classText) {
		end := t.runEnd(mark+n, classText, true)
		for end < t.end && (t.text[end] == '\n' || t.text[end] == '\r' || t.text[end] == '/') {
			end++
		}
		return end
	}
	run := t.runEnd(i, classSpace, false)
	for last := run; last > i; last-- {
		if b := t.text[last-1]; b == '\n' || b == '\r' {
			return last
		}
	}
	if run == i {
		return i + max(1, n) // a letter of no case that the tables do not know
	}
	return t.spaces(i)
}
