/* What a program on Linux needs when it has no libc: `start` gets the stack as the kernel left it. */
#include <asm/unistd.h>

#if defined __x86_64__
__asm__(".globl _start\n_start:\n mov %rsp, %rdi\n call start\n");

static inline long system_call(long number, long first, long second, long third) {
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined __aarch64__
__asm__(".globl _start\n_start:\n mov x0, sp\n bl start\n");

static inline long system_call(long number, long first, long second, long third) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = first;
    register long x1 __asm__("x1") = second;
    register long x2 __asm__("x2") = third;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
#else
#error "bare.h has no system calls for this machine"
#endif

_Noreturn static inline void end(int status) {
    for (;;)
        system_call(__NR_exit_group, status, 0, 0);
}
