// What freestanding code needs of the machine: an entry point, types, system
// calls, and strings. No libc. Its start is program().
#ifndef MACHINE_H
#define MACHINE_H
#include <asm/unistd.h>

typedef unsigned long u64;
typedef long i64;
typedef unsigned int u32;

// `fini` is rdx or x0 at the start: for atexit(3), to be passed to the program that jump() enters.
static __attribute__((used)) _Noreturn void program(u64 *sp, u64 fini);

#if defined(__x86_64__)
__asm__(".section .start,\"ax\"\n.globl start\nstart:\n"
        "  mov %rsp, %rdi\n  mov %rdx, %rsi\n  and $-16, %rsp\n  call program\n.text\n");
// Registers by name: the compiler must not choose one that is cleared here.
static inline _Noreturn void jump(u64 *sp, u64 entry, u64 fini) {
  __asm__ volatile("mov %0, %%rsp\n  xor %%ebp, %%ebp\n  jmp *%1"
                   : : "D"(sp), "a"(entry), "d"(fini) : "memory");
  __builtin_unreachable();
}
static i64 sys6(i64 n, i64 a, i64 b, i64 c, i64 d, i64 e, i64 f) {
  register i64 r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
  i64 r;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return r;
}
#elif defined(__aarch64__)
// hint #34 is `bti c`.
__asm__(".section .start,\"ax\"\n.globl start\nstart:\n"
        "  hint #34\n  mov x1, x0\n  mov x0, sp\n  b program\n.text\n");
static inline _Noreturn void jump(u64 *sp, u64 entry, u64 fini) {
  register u64 x1 __asm__("x1") = (u64)sp, x16 __asm__("x16") = entry, x0 __asm__("x0") = fini;
  __asm__ volatile("mov sp, %0\n  mov x29, xzr\n  mov x30, xzr\n  br %1"
                   : : "r"(x1), "r"(x16), "r"(x0) : "memory");
  __builtin_unreachable();
}
static i64 sys6(i64 n, i64 a, i64 b, i64 c, i64 d, i64 e, i64 f) {
  register i64 x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
      x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
#else
#error "only x86-64 and aarch64 Linux"
#endif
// Compilers call it for copies of structures. Volatile, so that they do not call it here.
__attribute__((used, visibility("hidden"))) void *memcpy(void *to, const void *from, u64 n) {
  for (u64 i = 0; i < n; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}
static inline i64 sys(i64 n, i64 a, i64 b, i64 c, i64 d) { return sys6(n, a, b, c, d, 0, 0); }

static u64 len(const char *s) {
  u64 n = 0;
  while (s[n]) n++;
  return n;
}
// Append s to p, NUL included, and return the place of that NUL.
static char *put(char *p, const char *s) {
  while ((*p = *s++)) p++;
  return p;
}
static int starts(const char *s, const char *prefix) {
  while (*prefix) if (*s++ != *prefix++) return 0;
  return 1;
}
static char *put_number(char *p, u64 v, u32 radix) {
  char digits[24];
  u32 n = 0;
  do digits[n++] = "0123456789abcdef"[v % radix]; while (v /= radix);
  while (n) *p++ = digits[--n];
  *p = 0;
  return p;
}
#endif
