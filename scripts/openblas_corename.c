/* Prints the processor whose kernels OpenBLAS chose. */
#include <stdio.h>

char* openblas_get_corename(void);

int main(void)
{
  puts(openblas_get_corename());
  return 0;
}
