/*
 * ml_k_add_sse2 by hand: y += x. A file here takes the place of generated/sse2/add.c when a build asks for hand-written
 * kernels: same symbol, same arguments (System V: y in rdi, x in rsi, n in edx), same bits.
 */
    .text
    .globl ml_k_add_sse2
    .hidden ml_k_add_sse2
    .type ml_k_add_sse2, @function
    .balign 16
ml_k_add_sse2:
    movslq %edx, %rdx
    xorl %eax, %eax             /* elements done */
    movq %rdx, %rcx
    andq $-8, %rcx              /* in strips of eight */
    jle 2f
1:
    movups (%rdi,%rax,4), %xmm0
    movups 16(%rdi,%rax,4), %xmm1
    movups (%rsi,%rax,4), %xmm2
    movups 16(%rsi,%rax,4), %xmm3
    addps %xmm2, %xmm0
    addps %xmm3, %xmm1
    movups %xmm0, (%rdi,%rax,4)
    movups %xmm1, 16(%rdi,%rax,4)
    addq $8, %rax
    cmpq %rcx, %rax
    jl 1b
2:
    cmpq %rdx, %rax
    jge 4f
3:
    movss (%rdi,%rax,4), %xmm0
    addss (%rsi,%rax,4), %xmm0
    movss %xmm0, (%rdi,%rax,4)
    incq %rax
    cmpq %rdx, %rax
    jl 3b
4:
    ret
    .size ml_k_add_sse2, .-ml_k_add_sse2
    .section .note.GNU-stack,"",@progbits
