// Entry stub of a packed executable (see ../README.md and pack.ts).
//
// pack.ts appends this code, as one read+execute segment, to a copy of the
// deno ELF and points e_entry here. It therefore runs after ld.so has loaded
// and relocated deno, but before deno's own _start. It
//   1. finds, or writes once, a private directory holding the bundled modules,
//   2. builds a new initial stack: argv = argv0 "run" <flags> <entry> <args>,
//   3. jumps to deno's _start, which never learns that anything came before.
// With CNI_COMMAND in the environment, and for `coil ipam`, it has flags and a
// code cache of their own, since V8 refuses code compiled under other flags.
//
// Freestanding: no libc, no relocations, no writable data, raw syscalls only.
#include "../elf/machine.h"

#include <asm/stat.h>
#include <linux/auxvec.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/stat.h>

#define NAME "coil-modules"
#define ARGV0_VAR "COIL_ARGV0"
#define PATH_LEN 4096
#define OLD_S 3600 // age from which another version's modules may be removed
#define NO_PLACE                                                      \
  "none of /run, $XDG_RUNTIME_DIR, $TMPDIR, /tmp, /dev/shm is a place " \
  "that this user, and no one else, can write to"

// Filled in by pack.ts. `x_off` are offsets from the start of this header.
struct header {
  char magic[8];        // "COILSF2"
  u64 self;             // link-time address of this header
  u64 entry;            // link-time address of deno's _start
  u64 environ_slot;     // link-time address of deno's GOT slot for `environ`
  u64 files_off, files; // struct file[]; the first one is the entry module
  u64 argv_off, args;   // NUL-terminated strings put between argv[0] and the entry
  u64 plugin_off, plugin_args; // the same for a call of the CNI plugin
  u64 reader_off, reader_args; // the same for `coil ipam`
  u64 env_off, envs;    // NUL-terminated NAME=value strings
  char hash[40];        // name of the directory, NUL-terminated
};
struct file {
  u64 name_off, data_off, size;
};
struct dirent64 { // getdents64(2); no header of the kernel's has it
  u64 ino, off;
  unsigned short reclen;
  unsigned char type;
  char name[];
};
// Not const, so that the compiler cannot assume these values.
__attribute__((section(".header"), used, visibility("hidden"))) struct header HEADER = {.magic = "COILSF2"};

// ---------------------------------------------------------------- strings
static int ends(const char *s, const char *suffix) {
  u64 n = len(s), m = len(suffix);
  return n >= m && starts(s + n - m, suffix);
}
static int same(const char *a, const char *b) { return starts(a, b) && len(a) == len(b); }
static int is_hash(const char *s) {
  u64 n = 0;
  while ((s[n] >= '0' && s[n] <= '9') || (s[n] >= 'a' && s[n] <= 'f')) n++;
  return n == 32 && !s[n];
}
static const char *value(char **envp, const char *name) { // name includes '='
  for (; *envp; envp++) if (starts(*envp, name)) return *envp + len(name);
  return 0;
}

// ---------------------------------------------------------------- files
static const char *at(u64 off) { return (const char *)&HEADER + off; }

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

// Open (making it if need be) a directory that no one but us can write to.
static i64 enter(i64 dir, const char *name, u32 uid) {
  i64 fd = sys(__NR_openat, dir, (i64)name, DIRECTORY, 0);
  if (fd == -ENOENT) {
    sys(__NR_mkdirat, dir, (i64)name, 0700, 0);
    fd = sys(__NR_openat, dir, (i64)name, DIRECTORY, 0);
  }
  if (fd < 0) return fd;
  struct stat s;
  if (sys(__NR_fstat, fd, (i64)&s, 0, 0) == 0 && s.st_uid == uid && !(s.st_mode & 022)) return fd;
  sys(__NR_close, fd, 0, 0, 0);
  return -EPERM;
}

// The size is compared too: what a crash or a cleaner of old files left of the
// directory is made whole again.
static int present(i64 dir, const struct file *f) {
  struct stat s;
  return sys(__NR_newfstatat, dir, (i64)at(f->name_off), (i64)&s, AT_SYMLINK_NOFOLLOW) == 0 &&
         (s.st_mode & S_IFMT) == S_IFREG && (u64)s.st_size == f->size;
}
static int complete(i64 dir) {
  const struct file *f = (const void *)at(HEADER.files_off);
  for (u64 i = 0; i < HEADER.files; i++) if (!present(dir, f + i)) return 0;
  return 1;
}

// Write every missing file: first under a temporary name, then rename.
static int extract(i64 dir, const char *temp) {
  const struct file *f = (const void *)at(HEADER.files_off), *end = f + HEADER.files;
  for (; f < end; f++) {
    if (present(dir, f)) continue;
    const char *name = at(f->name_off);
    char parent[PATH_LEN];
    for (u64 i = 0; name[i]; i++) { // pack.ts refuses names that are too long
      if (name[i] == '/') parent[i] = 0, sys(__NR_mkdirat, dir, (i64)parent, 0700, 0);
      parent[i] = name[i];
    }
    i64 fd = sys(__NR_openat, dir, (i64)temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return 0;
    i64 bad = 0;
    for (u64 done = 0; done < f->size && !bad;) {
      i64 n = sys(__NR_write, fd, (i64)at(f->data_off + done), f->size - done, 0);
      if (n > 0) done += n; else bad = n != -EINTR;
    }
    sys(__NR_close, fd, 0, 0, 0);
    if (bad || sys(__NR_renameat, dir, (i64)temp, dir, (i64)name)) {
      sys(__NR_unlinkat, dir, (i64)temp, 0, 0);
      return 0;
    }
  }
  return 1;
}

static void pause_10ms(void) {
  i64 time[2] = {0, 10000000};
  sys(__NR_nanosleep, (i64)time, 0, 0, 0);
}

// Of many processes that start at once, one writes and the others wait. The
// lock only saves work: without it (none on this file system, or the holder is
// stopped for 5 s) each process writes under its own temporary name. 2: it was
// we who wrote, with the lock.
static int extract_once(i64 lock, i64 dir, u64 salt) {
  for (int i = 0; i < 500; i++) {
    i64 r = sys(__NR_flock, lock, LOCK_EX | LOCK_NB, 0, 0); // closing the descriptor unlocks
    if (complete(dir)) return 1;
    if (r == 0) return extract(dir, ".new") ? 2 : 0;
    if (r != -EWOULDBLOCK && r != -EINTR) break;
    pause_10ms();
  }
  char temp[32];
  put_number(put(temp, ".new-"), salt, 16);
  return extract(dir, temp);
}

// Remove what is in a directory, but for the entry `spare`.
static void clear(i64 dir, const char *spare, int depth) {
  char list[4096] __attribute__((aligned(8)));
  for (int removed = 1; removed;) { // until a pass finds nothing that can go
    removed = 0;
    sys(__NR_lseek, dir, 0, 0, 0);
    for (i64 n; (n = sys(__NR_getdents64, dir, (i64)list, sizeof list, 0)) > 0;) {
      for (i64 i = 0; i < n; i += ((struct dirent64 *)(list + i))->reclen) {
        const char *name = ((struct dirent64 *)(list + i))->name;
        if (same(name, ".") || same(name, "..") || same(name, spare)) continue;
        if (sys(__NR_unlinkat, dir, (i64)name, 0, 0) == 0) {
          removed = 1;
          continue;
        }
        i64 sub = depth ? sys(__NR_openat, dir, (i64)name, DIRECTORY, 0) : -1;
        if (sub < 0) continue;
        clear(sub, "", depth - 1);
        sys(__NR_close, sub, 0, 0, 0);
        if (sys(__NR_unlinkat, dir, (i64)name, AT_REMOVEDIR, 0) == 0) removed = 1;
      }
    }
  }
}

// Every process has its js/ locked (shared) as long as it runs. So a version
// whose js/ can be locked exclusively is unused. A process that starts from it
// just now finds js/ locked or gone, and makes the directory again.
static void clear_version(i64 base, const char *name) {
  struct stat s;
  i64 now[2] = {0, 0};
  i64 own = sys(__NR_openat, base, (i64)name, DIRECTORY, 0);
  if (own < 0) return;
  sys(__NR_clock_gettime, 0, (i64)now, 0, 0);
  // Not so soon, or two versions in use by turns would be unpacked each time.
  if (sys(__NR_fstat, own, (i64)&s, 0, 0) == 0 && (i64)s.st_mtime + OLD_S < now[0]) {
    i64 js = sys(__NR_openat, own, (i64)"js", DIRECTORY, 0);
    int free = js == -ENOENT || (js >= 0 && sys(__NR_flock, js, LOCK_EX | LOCK_NB, 0, 0) == 0);
    if (free) {
      if (js >= 0) clear(js, "", 16);
      sys(__NR_unlinkat, own, (i64)"js", AT_REMOVEDIR, 0);
      clear(own, "js", 16);
      sys(__NR_unlinkat, base, (i64)name, AT_REMOVEDIR, 0);
    }
    if (js >= 0) sys(__NR_close, js, 0, 0, 0);
  }
  sys(__NR_close, own, 0, 0, 0);
}

// Remove the versions that are old and that no process runs from. `base` may be
// changed while it is read: what is skipped will go another time.
static void clear_others(i64 base) {
  char list[4096] __attribute__((aligned(8)));
  for (i64 n; (n = sys(__NR_getdents64, base, (i64)list, sizeof list, 0)) > 0;) {
    for (i64 i = 0; i < n; i += ((struct dirent64 *)(list + i))->reclen) {
      const char *name = ((struct dirent64 *)(list + i))->name;
      if (is_hash(name) && !same(name, HEADER.hash)) clear_version(base, name);
    }
  }
}

// Lock js/ for as long as this process lives; where there are no locks nothing
// is removed either.
static int hold(i64 js) {
  return sys(__NR_flock, js, LOCK_SH | LOCK_NB, 0, 0) != -EWOULDBLOCK;
}

static int settle_version(i64 base, u32 uid, u64 salt, const char *deno_dir) {
  i64 own = enter(base, HEADER.hash, uid);
  if (own < 0) return 0;
  i64 js = enter(own, "js", uid), cache = enter(own, deno_dir, uid);
  int ok = js >= 0 && cache >= 0 && hold(js);
  if (ok && !complete(js)) ok = extract_once(own, js, salt);
  if (js >= 0 && !ok) sys(__NR_close, js, 0, 0, 0); // else it stays open, and locked
  if (cache >= 0) sys(__NR_close, cache, 0, 0, 0);
  sys(__NR_close, own, 0, 0, 0);
  return ok;
}

// Try <parent>/coil-modules[-<uid>]/<hash>; on success `path` holds it.
// Layout: js/ = the modules; deno/, cni/ and ipam/ = DENO_DIR (V8's code cache).
static int settle(const char *parent, int shared, u32 uid, u64 salt, char *path, const char *deno_dir) {
  if (!parent || *parent != '/' || len(parent) > PATH_LEN / 2) return 0;
  int ok = 0;
  struct stat s;
  i64 up = sys(__NR_openat, AT_FDCWD, (i64)parent, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
  if (up < 0) return 0;
  // Where others may rename our directory away, the checks below mean nothing.
  if (sys(__NR_fstat, up, (i64)&s, 0, 0) == 0 && (!(s.st_mode & 022) || (s.st_mode & S_ISVTX))) {
    char *leaf = put(put(path, parent), "/"), *p = put(leaf, NAME);
    if (shared) p = put_number(put(p, "-"), uid, 10);
    i64 base = enter(up, leaf, uid);
    if (base >= 0) {
      put(put(p, "/"), HEADER.hash);
      // Again when another process was just removing it.
      for (int i = 0; i < 3 && !ok; i++) {
        if (i) pause_10ms();
        ok = settle_version(base, uid, salt, deno_dir);
      }
      if (ok == 2) clear_others(base);
      sys(__NR_close, base, 0, 0, 0);
    }
  }
  sys(__NR_close, up, 0, 0, 0);
  return ok;
}

// ---------------------------------------------------------------- main
// Variables that configure the deno CLI and that a compiled binary would not
// look at. Those about certificates and cgroups it would; they stay.
static int dropped(const char *e) {
  if (starts(e, ARGV0_VAR "=") || starts(e, "COMPLETE=")) return 1;
  if (starts(e, "DENO_CERT=") || starts(e, "DENO_TLS_CA_STORE=") || starts(e, "DENO_USE_CGROUPS=")) return 0;
  return starts(e, "DENO_");
}

static _Noreturn void program(u64 *sp, u64 fini) {
  u64 bias = (u64)&HEADER - HEADER.self;
  u64 argc = sp[0];
  char **argv = (char **)(sp + 1), **envp = argv + argc + 1, **e = envp;
  while (*e) e++;
  u64 envc = e - envp, *auxv = (u64 *)e, auxn = 0;
  while (!*auxv) auxv++; // more than one NULL: for set-uid programs ld.so removes variables
  u64 uid = 0, secure = 0, salt = 0;
  do {
    u64 tag = auxv[auxn], v = auxv[auxn + 1];
    if (tag == AT_EUID) uid = v;
    if (tag == AT_SECURE) secure = v;
    if (tag == AT_RANDOM) salt = *(u64 *)v;
    auxn += 2;
  } while (auxv[auxn - 2] != AT_NULL);

  char path[PATH_LEN];
  const char *command = value(envp, "CNI_COMMAND=");
  u64 plugin = command && *command && argc < 2;
  const char *argv0 = argc ? argv[0] : "";
  // The daemons have names of their own; kubectl-coil is the same program.
  u64 reader = ends(argv0, "coil") && argc > 1 && same(argv[1], "ipam");
  const char *cache = plugin ? "cni" : reader ? "ipam" : "deno";
  if (!settle("/run", 0, uid, salt, path, cache) &&
      !(!secure && settle(value(envp, "XDG_RUNTIME_DIR="), 0, uid, salt, path, cache)) &&
      !(!secure && settle(value(envp, "TMPDIR="), 1, uid, salt, path, cache)) &&
      !settle("/tmp", 1, uid, salt, path, cache) && !settle("/dev/shm", 1, uid, salt, path, cache)) {
    static const char text[] = NAME ": nowhere to unpack: " NO_PLACE "\n";
    // A runtime reads the reason on stdout. Code 5: I/O failure.
    static const char error[] = "{\"cniVersion\": \"1.0.0\", \"code\": 5, \"msg\": "
        "\"coil: nowhere to unpack the executable\", \"details\": \"" NO_PLACE "\"}\n";
    sys(__NR_write, 2, (i64)text, sizeof text - 1, 0);
    if (plugin) sys(__NR_write, 1, (i64)error, sizeof error - 1, 0);
    sys(__NR_exit_group, plugin ? 1 : 127, 0, 0, 0);
  }

  // The new initial stack goes below everything in use, so that _start finds
  // it exactly where the kernel would have put it: at sp and above.
  const char *entry = at(((const struct file *)at(HEADER.files_off))->name_off);
  u64 args = plugin ? HEADER.plugin_args : reader ? HEADER.reader_args : HEADER.args;
  u64 words = 1 + (argc + args + 3) + (envc + HEADER.envs + 3) + auxn;
  u64 bytes = 2 * len(path) + len(entry) + len(argv0) + 64;
  u64 *block = (u64 *)(((u64)__builtin_alloca(words * 8 + bytes + 16) + 15) & ~15UL), *w = block;
  char *text = (char *)(block + words);

  w++; // argc, below
  // deno takes an argv[0] that ends like this for its own `deno x` alias.
  *w++ = (u64)(ends(argv0, "dx") || ends(argv0, "dnx") || ends(argv0, "denox") ? "/proc/self/exe" : argv0);
  const char *s = at(plugin ? HEADER.plugin_off : reader ? HEADER.reader_off : HEADER.argv_off);
  for (u64 i = 0; i < args; i++, s += len(s) + 1) *w++ = (u64)s;
  *w++ = (u64)text, text = put(put(put(text, path), "/js/"), entry) + 1;
  for (u64 i = 1; i < argc; i++) *w++ = (u64)argv[i];
  block[0] = w - block - 1;
  *w++ = 0;

  char **new_envp = (char **)w;
  for (u64 i = 0; i < envc; i++) if (!dropped(envp[i])) *w++ = (u64)envp[i];
  s = at(HEADER.env_off);
  for (u64 i = 0; i < HEADER.envs; i++, s += len(s) + 1) *w++ = (u64)s;
  *w++ = (u64)text, text = put(put(put(put(text, "DENO_DIR="), path), "/"), cache) + 1;
  *w++ = (u64)text, text = put(put(text, ARGV0_VAR "="), argv0) + 1;
  *w++ = 0;
  for (u64 i = 0; i < auxn; i++) *w++ = auxv[i];

  // ld.so has already given libc the old environment; correct that as well.
  **(char ****)(bias + HEADER.environ_slot) = new_envp;
  jump(block, bias + HEADER.entry, fini);
}
