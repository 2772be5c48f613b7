package pull

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"hotpath/internal/atomicfile"
)

const (
	// someProgress is how many new bytes make an attempt worth another one.
	someProgress = 64 << 10
	// leastRate is how many bytes must come while Puller.Stall passes.
	leastRate = 1 << 10
)

// file is a file to fetch, whose content is known by its hash.
type file struct {
	url    string
	header http.Header
	name   string // for people
	size   int64
	sha256 string // hexadecimal; "" where git is known
	git    string // sha1 of git's object
}

// id is the hash.
func (f *file) id() string {
	if f.sha256 != "" {
		return f.sha256
	}
	return f.git
}

func (f *file) hash() hash.Hash {
	if f.sha256 != "" {
		return sha256.New()
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", f.size)
	return h
}

// download is a file on its way to the disk.
type download struct {
	*file
	p    *Puller
	out  *os.File
	have int64     // bytes in out
	most int64     // have at its highest
	sum  hash.Hash // of them
	etag string    // of the server that sent them, if it was in this process
	old  bool      // some of them are an earlier process's
	came int64     // bytes that were fetched, lost ones too
	add  func(n int64)
}

// fetch brings a file to path and counts the bytes that came. What is at
// path+".incomplete" is taken as its beginning. add hears how many more bytes
// are here, less than 0 where some were lost.
func (p *Puller) fetch(ctx context.Context, f *file, path string, add func(n int64)) (came int64, err error) {
	part := path + partSuffix
	out, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	d := &download{file: f, p: p, out: out, add: add}
	err = d.takeOver(ctx)
	for again := true; err == nil && again; {
		err = p.retry(ctx, func() (bool, error) { return d.attempt(ctx) })
		// Where the beginning was an earlier process's, it may be to blame.
		if again = err == nil && d.old && d.wrong() != nil; again {
			err = d.restart()
			d.most = 0
		}
	}
	if err != nil {
		return d.came, err
	}
	if err := d.wrong(); err != nil {
		return d.came, errors.Join(err, d.restart(), os.Remove(part))
	}
	if err := out.Sync(); err != nil {
		return d.came, err
	}
	if err := os.Rename(part, path); err != nil {
		return d.came, err
	}
	return d.came, atomicfile.SyncDir(filepath.Dir(path))
}

const partSuffix = ".incomplete"

// takeOver hashes what an earlier process left.
func (d *download) takeOver(ctx context.Context) error {
	info, err := d.out.Stat()
	if err != nil {
		return err
	}
	d.sum = d.hash()
	if info.Size() == 0 {
		return nil
	}
	if info.Size() > d.size {
		return d.restart()
	}
	n, err := io.Copy(d.sum, &until{ctx, d.out})
	d.have, d.most, d.old = n, n, true
	d.add(n)
	return err
}

// restart forgets what has come.
func (d *download) restart() error {
	d.add(-d.have)
	d.have, d.sum, d.etag, d.old = 0, d.hash(), "", false
	if err := d.out.Truncate(0); err != nil {
		return err
	}
	_, err := d.out.Seek(0, io.SeekStart)
	return err
}

// wrong says how the content differs from what was announced.
func (d *download) wrong() error {
	if got := hex.EncodeToString(d.sum.Sum(nil)); got != d.id() {
		kind := "SHA-256"
		if d.sha256 == "" {
			kind = "git hash"
		}
		return fmt.Errorf("%s: %s %s, expected %s: %w", d.name, kind, got, d.id(), ErrCorrupt)
	}
	return nil
}

var errStalled = errors.New("the server sends next to nothing")

// attempt asks for what is missing. It reports whether a good deal of it came.
func (d *download) attempt(ctx context.Context) (progress bool, err error) {
	if d.have == d.size {
		return false, nil
	}
	header := d.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Accept-Encoding", "identity")
	if d.have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		if strings.HasPrefix(d.etag, `"`) { // weak ones do not vouch for bytes
			header.Set("If-Range", d.etag)
		}
	}
	link := &linked{}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, linkedKey{}, link))
	defer cancel(nil)
	var came atomic.Int64
	go watch(ctx, d.p.Stall, &came, func() { cancel(fmt.Errorf("%w: under %d bytes in %s", errStalled, leastRate, d.p.Stall)) })
	resp, err := d.p.do(ctx, http.MethodGet, d.url, header)
	if err != nil {
		var status *statusError
		if errors.As(err, &status) && status.status == http.StatusRequestedRangeNotSatisfiable {
			return false, errors.Join(fmt.Errorf("%s: the server has fewer than %d bytes of it", status.url, d.have), d.restart())
		}
		return false, stalled(ctx, err)
	}
	defer resp.Body.Close()
	if err := d.check(resp, link); err != nil {
		return false, err
	}
	body := &counted{resp.Body, &came}
	err = d.copy(body)
	// What came before and was thrown away does not count a second time:
	// else a server could go on for ever.
	if progress = d.have >= d.most+someProgress; progress {
		d.most = d.have
	}
	return progress, stalled(ctx, err)
}

// stalled is the reason why the watch ended a request, where it did.
func stalled(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStalled) {
		return cause
	}
	return err
}

// check holds an answer against what is known of the file, and goes back to the
// beginning where the server does.
func (d *download) check(resp *http.Response, link *linked) error {
	if tag := link.header.Get("X-Linked-ETag"); tag != "" && hashName(plainTag(tag), 64, 64) && d.sha256 != "" && plainTag(tag) != d.sha256 {
		return permanent{fmt.Errorf("%s: the hub announced SHA-256 %s, and now %s: %w", d.name, d.sha256, plainTag(tag), ErrCorrupt)}
	}
	total, begin := resp.ContentLength, int64(0)
	if resp.StatusCode == http.StatusPartialContent {
		var ok bool
		if begin, total, ok = contentRange(resp.Header.Get("Content-Range")); !ok || begin != d.have {
			return fmt.Errorf("Content-Range %q, expected bytes from %d: %w", resp.Header.Get("Content-Range"), d.have, ErrCorrupt)
		}
	}
	tag := resp.Header.Get("ETag")
	changed := d.etag != "" && tag != d.etag
	if begin == 0 && d.have > 0 || changed {
		if err := d.restart(); err != nil {
			return err
		}
		if begin > 0 { // the middle of another file
			return fmt.Errorf("%s: the file changed while it was fetched", d.name)
		}
	}
	if total >= 0 && total != d.size {
		return fmt.Errorf("%s: the server has %d bytes, expected %d: %w", d.name, total, d.size, ErrCorrupt)
	}
	d.etag = tag
	return nil
}

// contentRange reads "bytes 5-9/10"; total is -1 where it is unknown.
func contentRange(s string) (begin, total int64, ok bool) {
	span, ok := strings.CutPrefix(s, "bytes ")
	if !ok {
		return 0, 0, false
	}
	span, all, ok := strings.Cut(span, "/")
	first, _, dash := strings.Cut(span, "-")
	begin, err := strconv.ParseInt(first, 10, 64)
	if total = -1; all != "*" {
		var bad error
		total, bad = strconv.ParseInt(all, 10, 64)
		err = errors.Join(err, bad)
	}
	return begin, total, ok && dash && err == nil && begin >= 0
}

// plainTag is an ETag without its dress.
func plainTag(s string) string { return strings.Trim(strings.TrimPrefix(s, "W/"), `"`) }

// copy writes what comes, up to the size of the file.
func (d *download) copy(body io.Reader) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := body.Read(buf)
		if d.have+int64(n) > d.size {
			return errors.Join(fmt.Errorf("%s: more than the %d bytes that were announced: %w", d.name, d.size, ErrCorrupt), d.restart())
		}
		if n > 0 {
			if _, err := d.out.Write(buf[:n]); err != nil {
				return permanent{err} // a full disk stays full
			}
			d.sum.Write(buf[:n])
			d.have += int64(n)
			d.came += int64(n)
			d.add(int64(n))
		}
		if err == io.EOF {
			if d.have < d.size {
				return fmt.Errorf("%s: the connection ended after %d of %d bytes", d.name, d.have, d.size)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// until reads while ctx lasts.
type until struct {
	ctx context.Context
	io.Reader
}

func (u *until) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.Reader.Read(b)
}

type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// watch calls stop when next to nothing came while a period passed.
func watch(ctx context.Context, period time.Duration, came *atomic.Int64, stop func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for last := int64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := came.Load()
			if now-last < leastRate {
				stop()
				return
			}
			last = now
		}
	}
}
