package pull

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	maxRedirects = 10
	maxWait      = time.Minute // between two attempts
)

// statusError is an answer that is not what was asked for.
type statusError struct {
	url    string // without secrets
	status int
	says   string        // the hub's own words
	code   string        // the hub's X-Error-Code
	wait   time.Duration // that the server asks for
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("%s: %d %s", e.url, e.status, http.StatusText(e.status))
	if e.says != "" {
		text += ": " + e.says
	}
	return text
}

// Unwrap is what the status means.
func (e *statusError) Unwrap() error {
	switch {
	case e.status == http.StatusUnauthorized, e.status == http.StatusForbidden:
		return ErrDenied
	case e.status == http.StatusNotFound, e.status == http.StatusGone:
		return ErrNotFound
	}
	return nil
}

// permanent marks an error that another attempt would meet again.
type permanent struct{ error }

func (e permanent) Unwrap() error { return e.error }

// worthRetrying tells passing trouble from permanent.
func worthRetrying(err error) bool {
	var status *statusError
	var forever permanent
	var unknown *net.DNSError
	var distrust *tls.CertificateVerificationError
	switch {
	case errors.As(err, &forever), errors.As(err, &distrust), errors.As(err, &unknown) && unknown.IsNotFound:
		return false
	case errors.As(err, &status):
		return status.status == http.StatusTooManyRequests || status.status == http.StatusRequestTimeout || status.status >= 500
	}
	return true
}

// linked is what the hub says of a file before it sends the caller elsewhere.
type linked struct{ header http.Header }

type linkedKey struct{}

// checkRedirect lets a request go elsewhere, but not its token: only the host
// that was asked gets it.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return permanent{fmt.Errorf("more than %d redirects", maxRedirects)}
	}
	first := via[0].URL
	if first.Scheme == "https" && req.URL.Scheme != "https" {
		return permanent{fmt.Errorf("redirected from https to %s, which is not safe", req.URL.Scheme)}
	}
	if req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		req.Header.Del("Authorization")
		req.Header.Del("Cookie")
		req.Header.Del("Referer") // the address that was asked may be a secret
	}
	l, _ := req.Context().Value(linkedKey{}).(*linked)
	if l != nil && req.Response != nil && req.Response.Header.Get("X-Linked-ETag") != "" {
		l.header = req.Response.Header
	}
	if req.Method == http.MethodHead && l != nil && req.URL.Host != first.Host {
		return http.ErrUseLastResponse // the hub has said what there is to know
	}
	return nil
}

// do sends a request. The caller closes the body of an answer below 300.
func (p *Puller) do(ctx context.Context, method, address string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, permanent{err}
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", "hotpath")
	resp, err := p.client.Do(req)
	if err != nil {
		// The transport quotes the address, where a password may stand.
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("%s: %w", req.URL.Redacted(), err)
	}
	elsewhere := method == http.MethodHead && resp.StatusCode >= 300 && resp.StatusCode < 400
	if resp.StatusCode < 300 || elsewhere {
		return resp, nil
	}
	resp.Body.Close()
	e := &statusError{url: req.URL.Redacted(), status: resp.StatusCode, says: resp.Header.Get("X-Error-Message"), code: resp.Header.Get("X-Error-Code")}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.wait = min(time.Duration(s)*time.Second, maxWait)
	}
	return nil, e
}

// hubHeader is what requests to the hub carry.
func (p *Puller) hubHeader() http.Header {
	h := http.Header{"Accept-Encoding": {"identity"}}
	if p.Token != "" {
		h.Set("Authorization", "Bearer "+p.Token)
	}
	return h
}

// retry does work until it succeeds, fails for good, or has failed too often
// without getting anywhere. work says whether it got somewhere.
func (p *Puller) retry(ctx context.Context, work func() (progress bool, err error)) error {
	for failed := 0; ; {
		progress, err := work()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if progress {
			failed = 0
		}
		if failed++; !worthRetrying(err) {
			return err
		}
		if failed > p.Retries {
			return fmt.Errorf("%w (after %d attempts)", err, failed)
		}
		wait := min(p.Backoff<<(failed-1), maxWait)
		wait += time.Duration(rand.Int64N(int64(wait)/4 + 1)) // not all at once
		var status *statusError
		if errors.As(err, &status) {
			wait = max(wait, status.wait)
		}
		p.note("%v: trying again in %s", err, wait.Round(100*time.Millisecond))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// get fetches a small document.
func (p *Puller) get(ctx context.Context, address string, header http.Header, limit int64) (body []byte, from *url.URL, contentType string, err error) {
	err = p.retry(ctx, func() (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*p.Stall)
		defer cancel()
		resp, err := p.do(ctx, http.MethodGet, address, header)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
		if err != nil {
			return false, fmt.Errorf("%s: %w", resp.Request.URL.Redacted(), err)
		}
		if int64(len(body)) > limit {
			return false, permanent{fmt.Errorf("%s: more than %d bytes, expected a short answer", resp.Request.URL.Redacted(), limit)}
		}
		from, contentType = resp.Request.URL, resp.Header.Get("Content-Type")
		return false, nil
	})
	return body, from, contentType, err
}

// eachOf reads a JSON object. element decodes one element of the list with the
// given key at a time; other, if not nil, gets the other values. The memory that
// it takes does not depend on the length of the list.
func eachOf(ctx context.Context, body []byte, list string, element func(*json.Decoder) error, other func(key string, value json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := expect(dec, json.Delim('{')); err != nil {
		return err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if key != list {
			var value json.RawMessage
			if err := dec.Decode(&value); err != nil {
				return err
			}
			if other == nil {
				continue
			}
			if err := other(key.(string), value); err != nil {
				return err
			}
			continue
		}
		if err := expect(dec, json.Delim('[')); err != nil {
			return err
		}
		for dec.More() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := element(dec); err != nil {
				return err
			}
		}
		if err := expect(dec, json.Delim(']')); err != nil {
			return err
		}
	}
	return expect(dec, json.Delim('}'))
}

func expect(dec *json.Decoder, want json.Delim) error {
	got, err := dec.Token()
	if err == nil && got != want {
		err = fmt.Errorf("offset %d: %v, expected %v", dec.InputOffset(), got, want)
	}
	return err
}
