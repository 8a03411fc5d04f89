"""`python -m patchword`"""

from patchword.cli import main

main()
