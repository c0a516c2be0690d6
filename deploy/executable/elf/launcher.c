// The launcher: what a container runtime calls as the CNI plugin `coil` (see
// ../README.md). It takes the call to coild, which answers it as the plugin would,
// and prints the answer; so no runtime of JavaScript is started for a pod.
//
// It knows nothing of CNI but names of variables. Whatever is not as it should
// be (no call of a runtime, no coild, another answer than agreed upon, too much
// to say) is left to the whole executable, `coil-executable` in the directory
// of this file, which gets the same arguments, environment and stdin. It has
// errors of its own only where that is no help: when the executable cannot be
// run, and when coild hangs.
//
// Request:  "COILCNI1", bytes of variables, bytes of stdin (32 bits each, in the
//           machine's order), NAME=value and a NUL for each variable, stdin.
// Answer:   "COILCNI1", exit code, bytes of stdout (the same), stdout.
//           Closing instead of answering leaves the call to the executable.
// The other end: roles/coild/server/plugin_server.ts.
//
// Freestanding: no libc, no relocations, raw syscalls only.
#include "machine.h"

#include <linux/auxvec.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/poll.h>

#define MAGIC "COILCNI1"
#define SOCKET_SUFFIX ".cni"
#define EXECUTABLE "coil-executable"
#define VARIABLES "CNI_"
// coild gives up after 60 s and says so; who does not even do that hangs.
#define PATIENCE_S 70
#define PATH_LEN 4096
#define BUFFER_LEN (256 * 1024)

// From linux/socket.h and linux/net.h, which cannot be included without libc's.
#define AF_UNIX 1
#define SOCK_STREAM 1
#define SOCK_CLOEXEC 02000000
#define SOL_SOCKET 1
#define SO_RCVTIMEO 20
#define SO_SNDTIMEO 21
#define MSG_NOSIGNAL 0x4000
// From linux/memfd.h, since Linux 6.3.
#define MFD_NOEXEC_SEAL 8

struct socket_address { // unix(7)
  unsigned short family;
  char path[108];
};

// The installer writes coild's socket behind the marker. Volatile, so that the
// compiler cannot assume these values.
struct place {
  char marker[16];
  char path[112];
};
__attribute__((used)) static volatile const struct place SOCKET = {
    .marker = {'C', 'O', 'I', 'L', '_', 'S', 'O', 'C', 'K', 'E', 'T', '_', 'P', 'A', 'T', 'H'}};

struct head {
  char magic[8];
  u32 first, second;
};
static char REQUEST[BUFFER_LEN], ANSWER[BUFFER_LEN];

#if defined(__x86_64__)
__asm__(".text\n.globl _start\n_start:\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call launch\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl _start\n_start:\n  hint #34\n  mov x0, sp\n  b launch\n");
#endif

// A value of the auxiliary vector, which comes after the environment; 0 without.
static const char *auxiliary(char **envp, u64 tag) {
  while (*envp) envp++;
  for (const u64 *entry = (const u64 *)envp + 1; entry[0] != AT_NULL; entry += 2)
    if (entry[0] == tag) return (const char *)entry[1];
  return 0;
}

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

// Reads until the end or until there is no room. `done` counts what was read, also before an error.
static i64 read_all(int fd, char *p, u64 room, u64 *done) {
  while (*done < room) {
    i64 n = sys(__NR_read, fd, (i64)(p + *done), room - *done, 0);
    if (n == -EINTR) continue;
    if (n <= 0) return n;
    *done += n;
  }
  return 0;
}

// As read_all, of what may have been made not to wait.
static i64 read_stdin(char *p, u64 room, u64 *done) {
  for (;;) {
    i64 error = read_all(0, p, room, done);
    if (error != -EAGAIN) return error;
    struct pollfd stdin = {0, POLLIN, 0};
    sys6(__NR_ppoll, (i64)&stdin, 1, 0, 0, 0, 0);
  }
}

// Says what went wrong, as a plugin does, and ends. Code 11: the runtime may try again.
static _Noreturn void fail(const char *what, i64 error, const char *details) {
  char text[PATH_LEN + 1024], *p = text;
  p = put(put(p, "{\"cniVersion\": \"1.0.0\", \"code\": 11, \"msg\": \"coil: "), what);
  p = put(p, "\", \"details\": \"");
  if (error) p = put(put_number(put(p, "error "), -error, 10), " of ");
  for (; *details; details++) *p++ = *details < ' ' || *details == '"' || *details == '\\' ? '?' : *details;
  p = put(p, "\"}\n");
  write_all(1, text, p - text);
  leave(1);
}

// ------------------------------------------------------ the whole executable
// Gives stdin back: what was read of it, and the rest.
static i64 rewind_stdin(const char *taken, u64 size) {
  i64 fd = sys(__NR_memfd_create, (i64)"stdin", MFD_NOEXEC_SEAL, 0, 0);
  if (fd == -EINVAL) fd = sys(__NR_memfd_create, (i64)"stdin", 0, 0, 0);
  if (fd < 0) return fd;
  if (!write_all(fd, taken, size)) return -ENOMEM;
  for (u64 n = sizeof ANSWER; n == sizeof ANSWER;) {
    n = 0;
    i64 error = read_stdin(ANSWER, sizeof ANSWER, &n);
    if (error) return error;
    if (!write_all(fd, ANSWER, n)) return -ENOMEM;
  }
  sys(__NR_lseek, fd, 0, 0, 0);
  i64 error = sys(__NR_dup3, fd, 0, 0, 0);
  if (error < 0) return error;
  sys(__NR_close, fd, 0, 0, 0);
  return 0;
}

// Puts the executable's name behind the last slash of a path of n bytes; whether that directory is there.
static int put_executable(char *path, i64 n) {
  while (n > 0 && path[n - 1] != '/') n--;
  path[n] = 0;
  i64 fd = sys(__NR_openat, AT_FDCWD, (i64)(n ? path : "."), O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
  put(path + n, EXECUTABLE);
  if (fd < 0) return 0;
  sys(__NR_close, fd, 0, 0, 0);
  return 1;
}

// `taken` is what was read of stdin; 0 when nothing was.
static _Noreturn void run_executable(char **argv, char **envp, const char *taken, u64 size) {
  char path[PATH_LEN + sizeof EXECUTABLE];
  i64 n = sys(__NR_readlinkat, AT_FDCWD, (i64)"/proc/self/exe", (i64)path, PATH_LEN);
  // Also right when this file was replaced meanwhile: the directory stays the same.
  if (n < 0 || !put_executable(path, n)) {
    // As it was called: another path where caller and file are in different mount namespaces.
    const char *called = auxiliary(envp, AT_EXECFN);
    if (!called || len(called) >= PATH_LEN) fail("cannot find its own file", n < 0 ? n : -ENOENT, "/proc/self/exe");
    put(path, called);
    put_executable(path, len(called));
  }
  i64 error = taken ? rewind_stdin(taken, size) : 0;
  if (error) fail("cannot hand its input over", error, "stdin or memfd_create");
  fail("cannot run the executable that it consists of; coil-installer puts it there",
       sys(__NR_execve, (i64)path, (i64)argv, (i64)envp, 0), path);
}

// ------------------------------------------------------ the call
// Whether a runtime calls, and not a person. VERSION needs no coild.
static int is_call(char **envp) {
  for (; *envp; envp++)
    if (starts(*envp, "CNI_COMMAND="))
      return (*envp)[12] && !starts(*envp + 12, "VERSION");
  return 0;
}

static i64 connect_coild(void) {
  struct socket_address address;
  u64 n = 0;
  address.family = AF_UNIX;
  for (; n < sizeof address.path - sizeof SOCKET_SUFFIX && SOCKET.path[n]; n++) address.path[n] = SOCKET.path[n];
  if (n == 0 || SOCKET.path[n]) return -ENAMETOOLONG;
  put(address.path + n, SOCKET_SUFFIX);
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

// Bytes of the variables, put behind the request's head; negative when they are too many.
static i64 put_variables(char **envp) {
  char *p = REQUEST + sizeof(struct head), *end = REQUEST + sizeof REQUEST / 2;
  for (; *envp; envp++) {
    if (!starts(*envp, VARIABLES)) continue;
    if (len(*envp) >= (u64)(end - p)) return -E2BIG;
    p = put(p, *envp) + 1;
  }
  return p - (REQUEST + sizeof(struct head));
}

static int send_all(int fd, const char *p, u64 size) {
  while (size > 0) {
    i64 n = sys6(__NR_sendto, fd, (i64)p, size, MSG_NOSIGNAL, 0, 0);
    if (n == -EINTR) continue;
    if (n <= 0) return 0;
    p += n, size -= n;
  }
  return 1;
}

static int is_magic(const char *p) {
  const char *magic = MAGIC;
  for (u32 i = 0; i < 8; i++) if (p[i] != magic[i]) return 0;
  return 1;
}

// The executable would wait as long again.
static _Noreturn void give_up(void) {
  fail("coild does not answer", 0, "nothing for 70 s; look at the coild pod of this node");
}

// Prints the answer and ends; returns when there is none that can be understood.
static void print_answer(int fd) {
  u64 n = 0;
  i64 error = read_all(fd, ANSWER, sizeof ANSWER, &n);
  const struct head *head = (const void *)ANSWER;
  if (error == -EAGAIN) give_up();
  if (error || n < sizeof *head || !is_magic(head->magic) || head->first > 1) return;
  if (head->second != n - sizeof *head) return;
  leave(write_all(1, ANSWER + sizeof *head, head->second) ? head->first : 1);
}

__attribute__((used)) _Noreturn void launch(u64 *sp) {
  u64 argc = sp[0], size = 0;
  char **argv = (char **)(sp + 1), **envp = argv + argc + 1;
  i64 variables = argc < 2 && is_call(envp) ? put_variables(envp) : -1;
  if (variables < 0) run_executable(argv, envp, 0, 0);

  // All of it before coild is bothered: the runtime may take its time.
  char *text = REQUEST + sizeof(struct head) + variables;
  u64 room = REQUEST + sizeof REQUEST - text;
  i64 error = read_stdin(text, room, &size);
  if (error && size == 0) run_executable(argv, envp, 0, 0);
  i64 fd = error || size == room ? -1 : connect_coild();
  if (fd == -EAGAIN) give_up();
  // Of the first three one that was closed: an answer would go astray.
  if (fd > 2) {
    struct head *head = (struct head *)REQUEST;
    put(head->magic, MAGIC);
    head->first = variables, head->second = size;
    if (send_all(fd, REQUEST, text + size - REQUEST)) print_answer(fd);
  }
  if (fd >= 0) sys(__NR_close, fd, 0, 0, 0);
  run_executable(argv, envp, text, size);
}
