// The front of the executable (see ../README.md): it runs before ld.so, V8 and
// Deno. When a container runtime calls the file as the CNI plugin, it takes the
// call to coild, prints the answer and exits, so that no JavaScript runtime
// starts for a pod. Otherwise it does what the kernel would have done, loads
// ld.so, and the whole program goes on in the same process, with the same
// arguments, environment and stdin.
//
// It knows nothing of CNI but names of variables. It has errors of its own only
// where the whole program cannot help: when ld.so cannot be loaded, when coild
// hangs, and when stdin does not end.
//
// Request:  "COILCNI1", bytes of variables, bytes of stdin (32 bits each, in the
//           machine's order), NAME=value and a NUL for each variable, stdin.
// Answer:   "COILCNI1", exit code, bytes of stdout (the same), stdout.
//           Closing instead of answering leaves the call to the whole program.
// The other end: roles/coild/server/plugin_server.ts.
//
// Freestanding: no libc, no relocations, no writable data, raw syscalls only.
#include "machine.h"

#include <linux/auxvec.h>
#include <linux/elf.h>
#include <linux/errno.h>
#include <linux/fcntl.h>

#define MAGIC "COILCNI1"
#define SOCKET_SUFFIX ".cni"
#define COORDINATOR "coordinator"
#define COORDINATOR_SOCKET COORDINATOR ".sock"
#define VARIABLES "CNI_"
// coild gives up after 60 s and says so. One that does not even do that hangs.
#ifndef PATIENCE_S
#define PATIENCE_S 70
#endif
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define FOREVER 0x7fffffffffffffff
#define BUFFER_LEN (256 * 1024)
// More of stdin is not kept for the whole program, which takes it to coild.
#define MAX_STDIN (4 * 1024 * 1024)
#define TEXT_LEN 512
// A header of ld.so has some hundred bytes, ld.so some hundred KiB.
#define START_LEN 4096
#define MAX_LOADER (64 << 20)

// From linux/socket.h, linux/net.h and asm-generic/mman.h, which cannot be
// included without libc's.
#define AF_UNIX 1
#define SOCK_STREAM 1
#define SOCK_CLOEXEC 02000000
#define SOL_SOCKET 1
#define SO_RCVTIMEO 20
#define SO_SNDTIMEO 21
#define MSG_NOSIGNAL 0x4000
#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define PROT_EXEC 4
#define MAP_PRIVATE 2
#define MAP_FIXED 0x10
#define MAP_ANONYMOUS 0x20
#define CLOCK_MONOTONIC 1
#define SEEK_SET 0
#define SEEK_END 2
// From linux/memfd.h, since Linux 6.3.
#define MFD_NOEXEC_SEAL 8

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

// Filled in by front.ts, the socket by coil-installer (base/front.ts).
struct header {
  char magic[8];     // "COILFRT1"
  u64 self;          // link-time address of this header
  u64 entry;         // link-time address of the program's own entry
  Elf64_Phdr interp; // the PT_INTERP that the kernel does not see
  char socket[112];  // coild's; empty: no call is taken to it
};
// Not const, so that the compiler cannot assume these values.
__attribute__((section(".header"), used, visibility("hidden"))) struct header HEADER = {.magic = "COILFRT1"};

struct socket_address { // unix(7)
  unsigned short family;
  char path[108];
};
struct head {
  char magic[8];
  u32 first, second;
};
// Mapped, since a runtime may limit the stack.
struct buffers {
  char request[BUFFER_LEN], answer[BUFFER_LEN];
};
// What the kernel put on the stack.
struct process {
  u64 *sp;
  char **envp;
  int is_plugin;  // a runtime calls, and not a person
  int is_coordinator; // that plugin is called, and not coil
  char *why;      // why coild did not answer; empty when it was not asked
};

static _Noreturn void leave(int code) {
  for (;;) sys(__NR_exit_group, code, 0, 0, 0);
}

static int write_all(int fd, const char *p, u64 size) {
  while (size > 0) {
    i64 n = sys(__NR_write, fd, (i64)p, size, 0);
    if (n == -EINTR) continue;
    if (n <= 0) return 0;
    p += n, size -= n;
  }
  return 1;
}

static i64 seconds(void) {
  i64 now[2] = {0, 0};
  sys(__NR_clock_gettime, CLOCK_MONOTONIC, (i64)now, 0, 0);
  return now[0];
}

// Reads until the end, until there is no room, or -EAGAIN when it goes on and on. `done` counts what was read, also
// before an error.
static i64 read_all(int fd, char *p, u64 room, u64 *done, i64 until) {
  while (*done < room) {
    if (seconds() > until) return -EAGAIN;
    i64 n = sys(__NR_read, fd, (i64)(p + *done), room - *done, 0);
    if (n == -EINTR) continue;
    if (n <= 0) return n;
    *done += n;
  }
  return 0;
}

// "error 2 of PATH", or the text alone.
static char *put_cause(char *p, i64 error, const char *text) {
  if (error) p = put(put_number(put(p, "error "), -error, 10), " of ");
  for (u64 i = 0; text[i] && i < TEXT_LEN; i++) {
    int is_plain = text[i] >= ' ' && text[i] != '"' && text[i] != '\\';
    *p++ = is_plain ? text[i] : '?';
  }
  *p = 0;
  return p;
}

// Says what went wrong, a runtime as a plugin does, and exits. Code 11 of the
// CNI specification: try again later; 7: the configuration is invalid.
static _Noreturn void fail(const struct process *own, const char *code, const char *what, i64 error, const char *cause) {
  char text[4 * TEXT_LEN], *p = text;
  if (own->is_plugin) p = put(put(put(p, "{\"cniVersion\": \"1.0.0\", \"code\": "), code), ", \"msg\": \"");
  p = put(put(p, "coil: "), what);
  p = put(p, own->is_plugin ? "\", \"details\": \"" : ": ");
  p = put_cause(p, error, cause);
  if (*own->why) p = put_cause(put(p, "; "), 0, own->why);
  p = put(p, own->is_plugin ? "\"}\n" : "\n");
  write_all(own->is_plugin ? 1 : 2, text, p - text);
  leave(own->is_plugin ? 1 : 127);
}

// ------------------------------------------------------ the whole program
static u64 *auxiliary(char **envp) {
  while (*envp) envp++;
  return (u64 *)envp + 1;
}

static u64 *find(u64 *auxv, u64 tag) {
  for (; auxv[0] != AT_NULL; auxv += 2) if (auxv[0] == tag) return auxv + 1;
  return 0;
}

static i64 map(u64 address, u64 size, u64 protection, u64 flags, i64 fd, u64 offset) {
  return sys6(__NR_mmap, address, size, protection, MAP_PRIVATE | flags, fd, offset);
}

static u64 protection_of(const Elf64_Phdr *header) {
  return (header->p_flags & PF_R ? PROT_READ : 0) | (header->p_flags & PF_W ? PROT_WRITE : 0) |
         (header->p_flags & PF_X ? PROT_EXEC : 0);
}

// Program headers with PT_INTERP, which ld.so insists on: a copy, behind the
// pointer of the auxiliary vector.
static i64 restore_headers(u64 *auxv, u64 bias) {
  u64 *at = find(auxv, AT_PHDR), *count = find(auxv, AT_PHNUM);
  if (!at || !count) return -ENOEXEC;
  const Elf64_Phdr *from = (const void *)*at;
  u64 size = (*count + 1) * sizeof *from;
  i64 copy = map(0, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1, 0);
  if (copy < 0) return copy;
  Elf64_Phdr *to = (Elf64_Phdr *)copy;
  for (u64 i = 0; i < *count; i++) {
    to[i] = from[i];
    if (to[i].p_type == PT_PHDR) to[i].p_vaddr = copy - bias, to[i].p_filesz = to[i].p_memsz = size;
  }
  to[*count] = HEADER.interp;
  sys(__NR_mprotect, copy, size, PROT_READ, 0);
  *at = copy, *count += 1;
  return 0;
}

// Whether the file, whose beginning this is, can be mapped as ld.so; how much address space it takes.
static u64 loader_size(const char *start, u64 length, u64 file_size) {
  const Elf64_Ehdr *file = (const void *)start;
  const Elf64_Phdr *headers = (const void *)(start + file->e_phoff);
  u64 size = 0;
  if (length < sizeof *file || !starts(start, ELFMAG) || file->e_machine != MACHINE || file->e_type != ET_DYN) return 0;
  if (file->e_phentsize != sizeof *headers || file->e_phoff > length || file->e_phoff % 8) return 0;
  if (file->e_phnum > (length - file->e_phoff) / sizeof *headers) return 0;
  for (int i = 0; i < file->e_phnum; i++) {
    const Elf64_Phdr *header = headers + i;
    if (header->p_type != PT_LOAD) continue;
    if (header->p_offset > file_size || header->p_filesz > file_size - header->p_offset) return 0;
    if (header->p_vaddr > MAX_LOADER || header->p_memsz > MAX_LOADER || header->p_filesz > header->p_memsz) return 0;
    if (header->p_vaddr + header->p_memsz > size) size = header->p_vaddr + header->p_memsz;
  }
  return file->e_entry < size ? size : 0;
}

static i64 map_segment(const Elf64_Phdr *header, i64 fd, u64 base, u64 page) {
  u64 first = header->p_vaddr & ~(page - 1), shift = header->p_vaddr - first, protection = protection_of(header);
  u64 end = header->p_vaddr + header->p_filesz, whole = header->p_vaddr + header->p_memsz, full = first;
  if (header->p_filesz > 0) {
    i64 at = map(base + first, header->p_filesz + shift, protection, MAP_FIXED, fd, header->p_offset - shift);
    if (at < 0) return at;
    full = (end + page - 1) & ~(page - 1);
    // ld.so takes the rest of its last page for zeros.
    if (protection & PROT_WRITE) for (u64 i = end; i < full; i++) *(volatile char *)(base + i) = 0;
  }
  if (whole <= full) return 0;
  i64 at = map(base + full, whole - full, protection, MAP_FIXED | MAP_ANONYMOUS, -1, 0);
  return at < 0 ? at : 0;
}

// What the kernel does with PT_INTERP; ld.so then enters the program.
static _Noreturn void load_interpreter(const struct process *own) {
  const char *what = "cannot start the whole program, which needs glibc's ld.so";
  u64 bias = (u64)&HEADER - HEADER.self, *auxv = auxiliary(own->envp);
  u64 *base = find(auxv, AT_BASE), *entry = find(auxv, AT_ENTRY), *pages = find(auxv, AT_PAGESZ), page = pages ? *pages : 4096;
  const char *path = (const char *)(bias + HEADER.interp.p_vaddr);
  i64 error = base && entry ? restore_headers(auxv, bias) : -ENOEXEC;
  if (error) fail(own, "11", what, error, "the program headers");

  i64 fd = sys(__NR_openat, AT_FDCWD, (i64)path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) fail(own, "11", what, fd, path);
  char start[START_LEN] __attribute__((aligned(16)));
  u64 length = 0, file_size = sys(__NR_lseek, fd, 0, SEEK_END, 0);
  sys(__NR_lseek, fd, 0, SEEK_SET, 0);
  error = read_all(fd, start, sizeof start, &length, FOREVER);
  if (error) fail(own, "11", what, error, path);
  u64 size = loader_size(start, length, file_size);
  if (size == 0) fail(own, "11", what, -ENOEXEC, path);

  // Not MAP_FIXED: the kernel chooses, and the segments replace it.
  i64 at = map(0, size, PROT_NONE, MAP_ANONYMOUS, -1, 0);
  if (at < 0) fail(own, "11", what, at, path);
  const Elf64_Ehdr *file = (const void *)start;
  const Elf64_Phdr *headers = (const void *)(start + file->e_phoff);
  for (int i = 0; i < file->e_phnum; i++) {
    if (headers[i].p_type != PT_LOAD) continue;
    error = map_segment(headers + i, fd, at, page);
    if (error) fail(own, "11", what, error, path);
  }
  sys(__NR_close, fd, 0, 0, 0);
  *base = at;
  *entry = bias + HEADER.entry;
  jump(own->sp, at + file->e_entry, 0);
}

// Gives stdin back: what was read of it, and the rest if there is one.
static i64 rewind_stdin(const struct process *own, const char *taken, u64 size, char *buffer) {
  i64 fd = sys(__NR_memfd_create, (i64)"stdin", MFD_NOEXEC_SEAL, 0, 0);
  if (fd == -EINVAL) fd = sys(__NR_memfd_create, (i64)"stdin", 0, 0, 0);
  if (fd < 0) return fd;
  if (!write_all(fd, taken, size)) return -ENOMEM;
  for (u64 n = 1; n > 0; size += n) {
    n = 0;
    i64 error = read_all(0, buffer, BUFFER_LEN, &n, FOREVER);
    if (error) return error;
    if (size + n > MAX_STDIN) fail(own, "7", "the network configuration is too large", 0, "stdin has more than 4 MiB");
    if (!write_all(fd, buffer, n)) return -ENOMEM;
  }
  sys(__NR_lseek, fd, 0, SEEK_SET, 0);
  i64 error = sys(__NR_dup3, fd, 0, 0, 0);
  if (error < 0) return error;
  sys(__NR_close, fd, 0, 0, 0);
  return 0;
}

// ------------------------------------------------------ the call
static const char *value(char **envp, const char *name) { // name includes '='
  for (; *envp; envp++) if (starts(*envp, name)) return *envp + len(name);
  return "";
}

// What comes after the last slash.
static const char *base_name(const char *path) {
  const char *name = path;
  for (; *path; path++) if (*path == '/') name = path + 1;
  return name;
}

// coild serves each plugin at a socket of its own, in one directory: a coild that does not know the coordinator is
// never asked for it.
static void put_socket(char *p, const struct process *own) {
  char *end = put(p, HEADER.socket);
  if (own->is_coordinator) end = put(p + (base_name(HEADER.socket) - HEADER.socket), COORDINATOR_SOCKET);
  put(end, SOCKET_SUFFIX);
}

static i64 connect_coild(const char *path) {
  struct socket_address address;
  address.family = AF_UNIX;
  if (len(path) >= sizeof address.path) return -ENAMETOOLONG;
  put(address.path, path);
  i64 fd = sys(__NR_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
  if (fd < 0) return fd;
  i64 patience[2] = {PATIENCE_S, 0};
  sys6(__NR_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, (i64)patience, sizeof patience, 0);
  sys6(__NR_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, (i64)patience, sizeof patience, 0);
  i64 error = sys(__NR_connect, fd, (i64)&address, sizeof address, 0);
  if (error == 0) return fd;
  sys(__NR_close, fd, 0, 0, 0);
  return error;
}

// The end of the variables, put behind the request's head; 0 when they are too many.
static char *put_variables(char *request, char **envp) {
  char *p = request + sizeof(struct head), *end = request + BUFFER_LEN / 2;
  for (; *envp; envp++) {
    if (!starts(*envp, VARIABLES)) continue;
    if (len(*envp) >= (u64)(end - p)) return 0;
    p = put(p, *envp) + 1;
  }
  return p;
}

static i64 send_all(int fd, const char *p, u64 size) {
  while (size > 0) {
    i64 n = sys6(__NR_sendto, fd, (i64)p, size, MSG_NOSIGNAL, 0, 0);
    if (n == -EINTR) continue;
    if (n < 0) return n;
    p += n, size -= n;
  }
  return 0;
}

// The whole program would wait as long again.
static _Noreturn void give_up(const struct process *own) {
  put(own->why, "");
  fail(own, "11", "coild does not answer", 0, "no answer for " TEXT(PATIENCE_S) " s; look at the coild pod of this node");
}


// Prints the answer and exits; returns when there is none that can be understood.
static void print_answer(const struct process *own, int fd, char *answer) {
  u64 n = 0;
  i64 error = read_all(fd, answer, BUFFER_LEN, &n, seconds() + PATIENCE_S);
  const struct head *head = (const void *)answer;
  if (error == -EAGAIN) give_up(own);
  put(own->why, n ? "coild's answer is not one that this plugin understands" : "coild closed the connection without an answer");
  if (error || n < sizeof *head || !starts(head->magic, MAGIC) || head->first > 1) return;
  if (head->second != n - sizeof *head) return;
  leave(write_all(1, answer + sizeof *head, head->second) ? head->first : 1);
}

// Returns when there is no answer; `size` is how much of stdin was read.
static i64 ask_coild(const struct process *own, struct buffers *to, char *text, u64 *size) {
  u64 room = to->request + BUFFER_LEN - text;
  // All of it before coild is asked: the runtime may take its time.
  i64 error = read_all(0, text, room, size, FOREVER);
  if (error || *size == room) return error;
  char path[sizeof HEADER.socket + sizeof COORDINATOR_SOCKET + sizeof SOCKET_SUFFIX];
  put_socket(path, own);
  i64 fd = connect_coild(path);
  if (fd == -EAGAIN) give_up(own);
  if (fd < 0) {
    put_cause(put(own->why, "cannot reach coild: "), fd, path);
    return 0;
  }
  struct head *head = (struct head *)to->request;
  put(head->magic, MAGIC);
  head->first = text - to->request - sizeof *head, head->second = *size;
  put(own->why, "coild did not take the call");
  error = send_all(fd, to->request, text + *size - to->request);
  if (error == -EAGAIN) give_up(own);
  if (!error) print_answer(own, fd, to->answer);
  sys(__NR_close, fd, 0, 0, 0);
  return 0;
}

// Takes a runtime's call to coild. Returns when the whole program has to answer it, with stdin as it was.
static void call(const struct process *own) {
  i64 mapped = map(0, sizeof(struct buffers), PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1, 0);
  if (mapped < 0) return;
  struct buffers *buffers = (struct buffers *)mapped;
  char *text = put_variables(buffers->request, own->envp);
  u64 size = 0;
  if (text) {
    i64 error = ask_coild(own, buffers, text, &size);
    if (!error && size) error = rewind_stdin(own, text, size, buffers->answer);
    if (error && size) fail(own, "11", "cannot hand its input over", error, "stdin or memfd_create");
  }
  sys(__NR_munmap, mapped, sizeof *buffers, 0, 0);
}

// A runtime may leave them non-blocking. Neither the front nor Deno would wait for data or room.
static void make_blocking(int fd) {
  i64 flags = sys(__NR_fcntl, fd, F_GETFL, 0, 0);
  if (flags >= 0) sys(__NR_fcntl, fd, F_SETFL, flags & ~O_NONBLOCK, 0);
}

// What is opened next must not become stdin, stdout or stderr. Whether stdin and stdout were open.
static int fill_descriptors(void) {
  int first = 3;
  for (int fd = 2; fd >= 0; fd--) if (sys(__NR_fcntl, fd, F_GETFD, 0, 0) == -EBADF) first = fd;
  for (int fd = first; fd < 3; fd++)
    if (sys(__NR_fcntl, fd, F_GETFD, 0, 0) == -EBADF) sys(__NR_openat, AT_FDCWD, (i64)"/dev/null", O_RDWR, 0);
  return first > 1;
}

static _Noreturn void program(u64 *sp, u64 fini) {
  (void)fini; // none: the kernel started this
  char **envp = (char **)(sp + sp[0] + 2), why[TEXT_LEN];
  const char *command = value(envp, "CNI_COMMAND=");
  const char *name = base_name(sp[0] ? (const char *)sp[1] : "");
  int is_coordinator = starts(name, COORDINATOR) && !name[sizeof COORDINATOR - 1];
  struct process own = {sp, envp, *command && sp[0] < 2, is_coordinator, put(why, "") };
  if (own.is_plugin) make_blocking(0), make_blocking(1);
  // VERSION needs no coild.
  if (fill_descriptors() && own.is_plugin && HEADER.socket[0] && !starts(command, "VERSION")) call(&own);
  load_interpreter(&own);
}
